#include "launch/session_setup.h"

#include <algorithm>

#include "base/error.h"
#include "model/random_source.h"
#include "model/shapes.h"

namespace colibri {

DType parse_kv_dtype(const std::string& text, bool is_cuda) {
  if (text == "f32" || (text == "auto" && !is_cuda)) return DType::kF32;
  if (text == "bf16" || text == "auto") return DType::kBF16;
  fail(ErrorKind::kInput, "--kv-dtype is '", text, "', want auto, f32 or bf16");
}

Isa parse_isa(const std::string& text) {
  if (text == "auto") return best_isa();
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (text == to_string(isa)) return isa;
  }
  fail(ErrorKind::kInput, "--isa is '", text, "', want auto, portable, avx2 or avx512");
}

Checkpoint random_model(const ModelConfig& config, const WeightFormats& formats) {
  constexpr uint64_t kSeed = 1;
  return Checkpoint(make_random_source(config, formats, kSeed));
}

Checkpoint open_model(const CommonOptions& options, const WeightFormats& formats) {
  if (options.shape.empty()) {
    return Checkpoint::open(options.model,
                            options.page_cache == "drop" ? PageCache::kDrop : PageCache::kKeep);
  }
  auto config = named_shape(options.shape);
  if (!config) {
    std::string names;
    for (const std::string& name : shape_names()) names += (names.empty() ? "" : ", ") + name;
    fail(ErrorKind::kInput, "--shape is '", options.shape, "', want one of ", names);
  }
  if (options.layers > 0) config = cut_layers(*config, options.layers, options.scale_vocab);
  return random_model(*config, formats);
}

int64_t context_limit(const CommonOptions& options, const ModelConfig& config) {
  if (options.max_context > config.max_positions) {
    fail(ErrorKind::kInput, "--max-context is ", options.max_context,
         ", but config.json says max_position_embeddings ", config.max_positions);
  }
  return options.max_context > 0 ? options.max_context : config.max_positions;
}

ThreadPool::Options pool_options(const CommonOptions& options, const RankContext& context) {
  const std::vector<int> all = allowed_cpus();
  ThreadPool::Options pool;
  const std::vector<int> share =
      context.device.near_cpus.empty()
          ? cpus_of_rank(context.cores, all, context.local_rank, context.num_local_ranks)
          : context.device.near_cpus;
  pool.num_threads = options.threads > 0 ? options.threads : static_cast<int>(share.size());
  const bool ranks_share_cores = context.num_local_ranks > static_cast<int>(all.size());
  pool.spin = !ranks_share_cores && pool.num_threads <= static_cast<int>(share.size());
  if (options.bind == "own" && pool.spin) pool.cpus = share;
  return pool;
}

int64_t attention_workspace_bytes(const ModelConfig& config, int64_t max_tokens) {
  const AttentionConfig& a = config.attention;
  const int64_t mlp = 2 * std::max(config.dense_width, config.shared_width);
  int64_t floats = mlp + config.hidden_size + a.rope.rotary_dim;
  if (a.kind == AttentionKind::kLatent) {
    const int64_t key = a.kv_lora_rank + a.qk_rope_head_dim;
    floats += a.q_lora_rank + key +
              a.num_heads * (a.qk_nope_head_dim + key + a.kv_lora_rank + a.v_head_dim);
  } else {
    floats += 2 * a.head_dim * (a.num_heads + a.num_kv_heads);
  }
  return floats * max_tokens * static_cast<int64_t>(sizeof(float));
}

bool may_spin(const RankContext& context) {
  return context.num_local_ranks <= static_cast<int>(allowed_cpus().size());
}

uint64_t share_bytes(const Checkpoint& checkpoint, const Placement& placement, int rank) {
  const ModelConfig& config = checkpoint.config();
  uint64_t bytes = 0;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    for (const int32_t expert : placement.experts_of(layer, rank)) {
      for (const TensorRole role :
           {TensorRole::kExpertGate, TensorRole::kExpertUp, TensorRole::kExpertDown}) {
        bytes += checkpoint.range({role, layer, expert}).size_bytes;
      }
    }
  }
  if (rank == 0) bytes += checkpoint.summary().total_bytes - checkpoint.summary().expert_bytes;
  return bytes;
}

}  // namespace colibri
