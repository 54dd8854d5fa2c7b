// A Hugging Face directory as named byte ranges: which bytes are which tensor of which layer and
// expert. Opening reads headers only; nothing is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/config.h"

namespace colibri {

// What a tensor is for, whatever its family calls it. Layer and expert stand beside it.
enum class TensorRole : uint8_t {
  kEmbedding,  // [V, H]
  kFinalNorm,  // [H]
  kLmHead,     // [V, H]; the same range as the embedding when tied
  kAttentionNorm,
  kMlpNorm,  // [H]
  kQ,
  kK,
  kV,
  kO,  // grouped-query projections
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kQNorm,
  kKNorm,
  kLatentQ,
  kLatentQA,
  kLatentQANorm,
  kLatentQB,  // latent attention; kLatentQ when q_lora_rank is 0
  kLatentQABias,
  kLatentKvABias,
  kLatentKvA,
  kLatentKvANorm,
  kLatentKvB,
  kRouter,
  kRouterBias,  // [E, H], [E] selection bias
  kDenseGate,
  kDenseUp,
  kDenseDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedExpertGate,
  kExpertGate,
  kExpertUp,
  kExpertDown,  // [I, H], [I, H], [H, I]
};
const char* to_string(TensorRole role);

struct TensorKey {
  TensorRole role = TensorRole::kEmbedding;
  int layer = -1;
  int expert = -1;
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
};

// Bytes by role, for `inspect`.
struct CheckpointSummary {
  uint64_t total_bytes = 0, expert_bytes = 0;  // of the tensors in use, as stored
  int num_files = 0, num_tensors = 0;          // tensors in use, as the files count them
  std::vector<std::string> dtypes;             // in use, e.g. "bf16"
  std::vector<std::string> ignored;            // tensors left out by name, with the reason
};

class Checkpoint {
 public:
  // Opens `dir`: config, index, every header; finds and checks the shape of every tensor the
  // configuration asks for; fails if one is missing or one in the files is neither used nor ignored
  // by name. An lm_head beside a tied embedding is read and must hold the same bytes. Errors:
  // kInput for wrong files, kUnsupported for a family, key, type or quantised form that is not
  // supported, kEnvironment when `dir` is not there (with the command that downloads an org/name).
  // Files stay open. Threads: const members may be called from several threads.
  static Checkpoint open(const std::filesystem::path& dir);

  const std::filesystem::path& dir() const;
  const ModelConfig& config() const;
  const CheckpointSummary& summary() const;
  // 128-bit hash, in hex, of the configuration and of names, shapes and places of all tensors:
  // ranks compare it at start. The weights themselves are not read.
  const std::string& fingerprint() const;

  bool has(const TensorKey& key) const;
  // Fails with kInternal if the model has no such tensor.
  TensorRange range(const TensorKey& key) const;
  // Reads the whole range with positional reads; `into` holds range.size_bytes. Short reads fail
  // with kInput.
  void read(const TensorRange& range, void* into) const;

 private:
  struct State;
  explicit Checkpoint(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace colibri
