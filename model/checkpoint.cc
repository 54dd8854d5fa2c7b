#include "model/checkpoint.h"

#include "model/checkpoint_files.h"
#include "model/container.h"
#include "model/tensor_source.h"

namespace colibri {

Checkpoint Checkpoint::open(const std::filesystem::path& path) {
  if (is_container_file(path)) return Checkpoint(open_container(path));
  return Checkpoint(open_model_directory(path));
}

const std::filesystem::path& Checkpoint::path() const { return source_->path(); }
const ModelConfig& Checkpoint::config() const { return source_->config(); }
const CheckpointSummary& Checkpoint::summary() const { return source_->summary(); }
const std::string& Checkpoint::fingerprint() const { return source_->fingerprint(); }
std::optional<std::string> Checkpoint::text(const std::string& name) const {
  return source_->text(name);
}
bool Checkpoint::has(const TensorKey& key) const { return source_->has(key); }
TensorRange Checkpoint::range(const TensorKey& key) const { return source_->range(key); }

void Checkpoint::read(const TensorRange& range, void* into) const {
  source_->read(range.file_idx, range.offset_bytes, range.size_bytes, into);
}

void Checkpoint::read_scales(const TensorRange& range, void* into) const {
  const BlockScales& scales = range.scales;
  source_->read(scales.file_idx, scales.offset_bytes, scales.size_bytes, into);
}

}  // namespace colibri
