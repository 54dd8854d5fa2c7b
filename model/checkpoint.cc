#include "model/checkpoint.h"

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

namespace colibri {

struct Checkpoint::State {
  std::filesystem::path dir;
  ModelConfig config;
  std::vector<SafetensorsFile> files;
  TensorMatch match;
  CheckpointSummary summary;
  std::string fingerprint;
};

namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxConfigBytes = 4'000'000;

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

}  // namespace

const char* to_string(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbedding:
      return "embedding";
    case TensorRole::kFinalNorm:
      return "final norm";
    case TensorRole::kLmHead:
      return "lm_head";
    case TensorRole::kAttentionNorm:
      return "attention norm";
    case TensorRole::kMlpNorm:
      return "mlp norm";
    case TensorRole::kQ:
      return "q";
    case TensorRole::kK:
      return "k";
    case TensorRole::kV:
      return "v";
    case TensorRole::kO:
      return "o";
    case TensorRole::kQBias:
      return "q bias";
    case TensorRole::kKBias:
      return "k bias";
    case TensorRole::kVBias:
      return "v bias";
    case TensorRole::kOBias:
      return "o bias";
    case TensorRole::kQNorm:
      return "q norm";
    case TensorRole::kKNorm:
      return "k norm";
    case TensorRole::kLatentQ:
      return "latent q";
    case TensorRole::kLatentQA:
      return "latent q_a";
    case TensorRole::kLatentQANorm:
      return "latent q_a norm";
    case TensorRole::kLatentQB:
      return "latent q_b";
    case TensorRole::kLatentQABias:
      return "latent q_a bias";
    case TensorRole::kLatentKvABias:
      return "latent kv_a bias";
    case TensorRole::kLatentKvA:
      return "latent kv_a";
    case TensorRole::kLatentKvANorm:
      return "latent kv_a norm";
    case TensorRole::kLatentKvB:
      return "latent kv_b";
    case TensorRole::kRouter:
      return "router";
    case TensorRole::kRouterBias:
      return "router selection bias";
    case TensorRole::kDenseGate:
      return "dense gate";
    case TensorRole::kDenseUp:
      return "dense up";
    case TensorRole::kDenseDown:
      return "dense down";
    case TensorRole::kSharedGate:
      return "shared gate";
    case TensorRole::kSharedUp:
      return "shared up";
    case TensorRole::kSharedDown:
      return "shared down";
    case TensorRole::kSharedExpertGate:
      return "shared expert's gate";
    case TensorRole::kExpertGate:
      return "expert gate";
    case TensorRole::kExpertUp:
      return "expert up";
    case TensorRole::kExpertDown:
      return "expert down";
  }
  return "unknown";
}

Checkpoint::Checkpoint(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Checkpoint Checkpoint::open(const fs::path& dir) {
  require_model_directory(dir);
  auto state = std::make_shared<State>();
  state->dir = dir;
  const fs::path config_path = dir / "config.json";
  const std::string config_text =
      read_small_file(config_path, kMaxConfigBytes, "the configuration of the model");
  state->config = parse_model_config(config_text, config_path.string());
  const WeightFiles named = find_weight_files(dir);
  for (const fs::path& path : named.paths) state->files.push_back(SafetensorsFile::open(path));
  state->match = match_tensors(state->config, state->files, named.weight_map, dir.string());
  check_tied_head(state->files, state->match);
  state->config.checkpoint_dtype =
      state->match.expert_dtype.value_or(state->config.checkpoint_dtype);
  state->fingerprint = fingerprint_of(config_text, state->files);
  state->summary = summarise(state->files, state->match);
  return Checkpoint(std::move(state));
}

const fs::path& Checkpoint::dir() const { return state_->dir; }
const ModelConfig& Checkpoint::config() const { return state_->config; }
const CheckpointSummary& Checkpoint::summary() const { return state_->summary; }
const std::string& Checkpoint::fingerprint() const { return state_->fingerprint; }

bool Checkpoint::has(const TensorKey& key) const {
  return state_->match.places.count(pack_key(key)) != 0;
}

TensorRange Checkpoint::range(const TensorKey& key) const {
  const auto found = state_->match.places.find(pack_key(key));
  check(found != state_->match.places.end(), "no tensor for ", to_string(key.role), " of layer ",
        key.layer, ", expert ", key.expert, " in ", state_->dir.string());
  const TensorPlace& place = found->second;
  const SafetensorsFile& file = state_->files[static_cast<size_t>(place.file_idx)];
  const SafetensorsEntry& entry = file.entries()[static_cast<size_t>(place.entry_idx)];
  return {.name = entry.name,
          .file_idx = place.file_idx,
          .offset_bytes = place.offset_bytes,
          .size_bytes = place.size_bytes,
          .dtype = entry.type->dtype,
          .rows = place.rows,
          .cols = place.cols};
}

void Checkpoint::read(const TensorRange& range, void* into) const {
  state_->files[static_cast<size_t>(range.file_idx)].read(range.offset_bytes, range.size_bytes,
                                                          into);
}

}  // namespace colibri
