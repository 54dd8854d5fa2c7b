#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "model/checkpoint_files.h"
#include "model/fingerprint.h"
#include "model/safetensors.h"
#include "model/small_file.h"
#include "model/tensor_match.h"
#include "model/tensor_source.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxConfigBytes = 4'000'000;
constexpr uint64_t kMaxTextBytes = 256'000'000;  // a tokenizer.json

// An lm_head beside a tied embedding must hold the same bytes: transformers would use the
// embedding.
void check_tied_head(const std::vector<SafetensorsFile>& files, const TensorMatch& match) {
  if (!match.tied_head) return;
  const TensorPlace& head = *match.tied_head;
  const TensorPlace& embedding = match.places.at(pack_key({TensorRole::kEmbedding, -1, -1}));
  const auto& head_file = files[static_cast<size_t>(head.file_idx)];
  const auto& embedding_file = files[static_cast<size_t>(embedding.file_idx)];
  bool is_equal = head.size_bytes == embedding.size_bytes;
  constexpr uint64_t kPieceBytes = 1 << 20;
  std::string a(kPieceBytes, '\0'), b(kPieceBytes, '\0');
  for (uint64_t at = 0; is_equal && at < head.size_bytes; at += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, head.size_bytes - at);
    head_file.read(head.offset_bytes + at, bytes, a.data());
    embedding_file.read(embedding.offset_bytes + at, bytes, b.data());
    is_equal = std::memcmp(a.data(), b.data(), bytes) == 0;
  }
  if (is_equal) return;
  fail(ErrorKind::kInput, head_file.path(),
       ": lm_head.weight differs from model.embed_tokens.weight,",
       " but config.json has tie_word_embeddings true; want equal tensors, or "
       "tie_word_embeddings false");
}

std::string fingerprint_of(const std::string& config_text,
                           const std::vector<SafetensorsFile>& files) {
  Fingerprint hash;
  hash.add(config_text);
  for (const SafetensorsFile& file : files) {
    hash.add(fs::path(file.path()).filename().string());
    hash.add(file.size_bytes());
    for (const SafetensorsEntry& entry : file.entries()) {
      hash.add(entry.name);
      hash.add(entry.type->name);
      hash.add(to_string(entry.dims));
      hash.add(entry.offset_bytes);
    }
  }
  return hash.hex();
}

CheckpointSummary summarise(const std::vector<SafetensorsFile>& files, TensorMatch& match) {
  CheckpointSummary summary;
  summary.total_bytes = match.used_bytes;
  summary.expert_bytes = match.expert_bytes;
  summary.num_files = static_cast<int>(files.size());
  summary.num_tensors = match.num_used_entries;
  summary.ignored = std::move(match.ignored);
  std::set<std::string> dtypes;
  for (const DType dtype : match.dtypes) dtypes.insert(to_string(dtype));
  summary.dtypes.assign(dtypes.begin(), dtypes.end());
  return summary;
}

class DirectorySource : public TensorSource {
 public:
  explicit DirectorySource(const fs::path& dir) {
    require_model_directory(dir);
    path_ = dir;
    const fs::path config_path = dir / "config.json";
    const std::string config_text =
        read_small_file(config_path, kMaxConfigBytes, "the configuration of the model");
    config_ = parse_model_config(config_text, config_path.string());
    const WeightFiles named = find_weight_files(dir);
    for (const fs::path& file : named.paths) files_.push_back(SafetensorsFile::open(file));
    match_ = match_tensors(config_, files_, named.weight_map, dir.string());
    check_tied_head(files_, match_);
    config_.checkpoint_dtype = match_.expert_dtype.value_or(config_.checkpoint_dtype);
    fingerprint_ = fingerprint_of(config_text, files_);
    summary_ = summarise(files_, match_);
  }

  std::optional<std::string> text(const std::string& name) const override {
    std::error_code error;
    if (!fs::exists(path_ / name, error)) return std::nullopt;
    return read_small_file(path_ / name, kMaxTextBytes, "a part of the model");
  }

  bool has(const TensorKey& key) const override { return match_.places.count(pack_key(key)) != 0; }

  TensorRange range(const TensorKey& key) const override {
    const auto found = match_.places.find(pack_key(key));
    check(found != match_.places.end(), "no tensor for ", to_string(key.role), " of layer ",
          key.layer, ", expert ", key.expert, " in ", path_.string());
    const TensorPlace& place = found->second;
    const SafetensorsFile& file = files_[static_cast<size_t>(place.file_idx)];
    const SafetensorsEntry& entry = file.entries()[static_cast<size_t>(place.entry_idx)];
    return {.name = entry.name,
            .file_idx = place.file_idx,
            .offset_bytes = place.offset_bytes,
            .size_bytes = place.size_bytes,
            .dtype = entry.type->dtype,
            .rows = place.rows,
            .cols = place.cols,
            .scales = place.scales};
  }

  void read(int file_idx, uint64_t offset_bytes, uint64_t size_bytes, void* into) const override {
    files_[static_cast<size_t>(file_idx)].read(offset_bytes, size_bytes, into);
  }

  void forget(int file_idx, uint64_t offset_bytes, uint64_t size_bytes) const override {
    files_[static_cast<size_t>(file_idx)].forget(offset_bytes, size_bytes);
  }

 private:
  std::vector<SafetensorsFile> files_;
  TensorMatch match_;
};

}  // namespace

std::shared_ptr<const TensorSource> open_model_directory(const fs::path& dir) {
  return std::make_shared<DirectorySource>(dir);
}

}  // namespace colibri
