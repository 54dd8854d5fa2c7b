// A model's weights as named byte ranges, whatever holds them: which bytes are which tensor of
// which layer and expert. Opening reads headers only; nothing is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "model/config.h"
#include "model/tensor_role.h"

namespace colibri {

// FP8's scales, one for each block of kScaleBlock x kScaleBlock weights: a weight is its FP8 value
// times the scale of its block.
inline constexpr int64_t kScaleBlock = 128;
struct BlockScales {
  int file_idx = 0;
  uint64_t offset_bytes = 0, size_bytes = 0;
  DType dtype = DType::kF32;   // f32 or bf16
  int64_t rows = 0, cols = 0;  // blocks, the last ones may be partial; 0: there are none

  bool empty() const { return rows == 0; }
};

// One contiguous matrix or vector in one file; packed experts are already narrowed to the one
// expert.
struct TensorRange {
  std::string name;  // as the file calls it
  int file_idx = 0;
  uint64_t offset_bytes = 0;  // from the start of the file
  uint64_t size_bytes = 0;
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0;  // a vector has rows 1
  BlockScales scales;          // kF8E4M3 only
};

// Bytes by role, for `inspect`.
struct CheckpointSummary {
  uint64_t total_bytes = 0, expert_bytes = 0;  // of the tensors in use, as stored
  int num_files = 0, num_tensors = 0;          // tensors in use, as the files count them
  std::vector<std::string> dtypes;             // in use, e.g. "bf16"
  std::vector<std::string> ignored;            // tensors left out by name, with the reason
};

class TensorSource;

// Whether the system keeps what was read of the files in its page cache.
enum class PageCache : uint8_t { kKeep, kDrop };

class Checkpoint {
 public:
  // Opens a Hugging Face directory (config, index, every header) or a .colibri file; finds and
  // checks the shape of every tensor the configuration asks for; fails if one is missing or one in
  // the files is neither used nor ignored by name. An lm_head beside a tied embedding is read and
  // must hold the same bytes. Errors: kInput for wrong files, kUnsupported for a family, key, type
  // or quantised form that is not supported, kEnvironment when `path` is not there (with the
  // command that downloads an org/name). Files stay open. Threads: const members may be called from
  // several threads.
  static Checkpoint open(const std::filesystem::path& path, PageCache cache = PageCache::kKeep);
  // Any other source of tensors.
  explicit Checkpoint(std::shared_ptr<const TensorSource> source) : source_(std::move(source)) {}

  // The directory or file, for messages.
  const std::filesystem::path& path() const;
  const ModelConfig& config() const;
  const CheckpointSummary& summary() const;
  // 128-bit hash, in hex, of the configuration and of names, shapes and places of all tensors:
  // ranks compare it at start. The weights themselves are not read.
  const std::string& fingerprint() const;
  // A small file that belongs to the model ("tokenizer.json", "generation_config.json"); nothing if
  // there is none. Errors: kInput when it is too large or cannot be read.
  std::optional<std::string> text(const std::string& name) const;

  bool has(const TensorKey& key) const;
  // Fails with kInternal if the model has no such tensor.
  TensorRange range(const TensorKey& key) const;
  // Reads the whole range with positional reads; `into` holds range.size_bytes. Short reads fail
  // with kInput.
  void read(const TensorRange& range, void* into) const;
  // The same for the range's block scales: range.scales.size_bytes.
  void read_scales(const TensorRange& range, void* into) const;

 private:
  void read(int file_idx, uint64_t offset_bytes, uint64_t size_bytes, void* into) const;

  std::shared_ptr<const TensorSource> source_;
  PageCache cache_ = PageCache::kKeep;
};

}  // namespace colibri
