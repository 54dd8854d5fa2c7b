// Where a checkpoint's tensors come from: a Hugging Face directory, a .colibri file, or a random
// generator. What Checkpoint's members promise, its source does.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "model/checkpoint.h"

namespace colibri {

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  const std::filesystem::path& path() const { return path_; }
  const ModelConfig& config() const { return config_; }
  const CheckpointSummary& summary() const { return summary_; }
  const std::string& fingerprint() const { return fingerprint_; }

  virtual std::optional<std::string> text(const std::string& name) const = 0;
  virtual bool has(const TensorKey& key) const = 0;
  virtual TensorRange range(const TensorKey& key) const = 0;
  // [offset_bytes, offset_bytes + size_bytes) of a file that a range or its scales name.
  virtual void read(int file_idx, uint64_t offset_bytes, uint64_t size_bytes, void* into) const = 0;

  // Lets the system drop what it cached of such a range. Sources without files have nothing to
  // drop.
  virtual void forget(int /*file_idx*/, uint64_t /*offset_bytes*/, uint64_t /*size_bytes*/) const {}

 protected:
  // A source fills these when it is made.
  std::filesystem::path path_;
  ModelConfig config_;
  CheckpointSummary summary_;
  std::string fingerprint_;
};

// Opens config.json, the index and every safetensors header of `dir`.
std::shared_ptr<const TensorSource> open_model_directory(const std::filesystem::path& dir);

}  // namespace colibri
