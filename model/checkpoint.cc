#include "model/checkpoint.h"

#include "model/checkpoint_files.h"
#include "model/container.h"
#include "model/tensor_source.h"

namespace colibri {

Checkpoint Checkpoint::open(const std::filesystem::path& path, PageCache cache) {
  Checkpoint opened(is_container_file(path) ? open_container(path) : open_model_directory(path));
  opened.cache_ = cache;
  return opened;
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
  read(range.file_idx, range.offset_bytes, range.size_bytes, into);
}

void Checkpoint::read_scales(const TensorRange& range, void* into) const {
  const BlockScales& scales = range.scales;
  read(scales.file_idx, scales.offset_bytes, scales.size_bytes, into);
}

void Checkpoint::read(int file_idx, uint64_t offset_bytes, uint64_t size_bytes, void* into) const {
  source_->read(file_idx, offset_bytes, size_bytes, into);
  if (cache_ == PageCache::kDrop) source_->forget(file_idx, offset_bytes, size_bytes);
}

}  // namespace colibri
