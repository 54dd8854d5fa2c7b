#include "base/error.h"
#include "base/quantised.h"
#include "model/config.h"
#include "model/fingerprint.h"
#include "model/tensor_names.h"

namespace colibri {
namespace {

DType stored_dtype(const ModelConfig& config, TensorRole role) {
  if (role == TensorRole::kEmbedding || role == TensorRole::kLatentKvB) {
    return config.wide_dtype.value_or(config.checkpoint_dtype);
  }
  for (const TensorRole expert : kExpertRoles) {
    if (role == expert) return config.checkpoint_dtype;
  }
  return config.dense_dtype.value_or(config.checkpoint_dtype);
}

int64_t role_bytes(const ModelConfig& config, TensorRole role, const WeightFormats& formats) {
  const WantedShape shape = wanted_shape(config, role);
  const DType kept = kept_dtype(role, stored_dtype(config, role), formats);
  if (is_quantised(kept) && shape.cols % kGroup != 0) {
    fail(ErrorKind::kInput, to_string(role), " is [", shape.rows, ", ", shape.cols,
         "]: its rows cannot be ", to_string(kept), ", which wants a multiple of ", kGroup,
         " values; use --weights bf16");
  }
  return matrix_bytes(kept, shape.rows, shape.cols);
}

bool is_shared_expert(TensorRole role) {
  return role == TensorRole::kSharedGate || role == TensorRole::kSharedUp ||
         role == TensorRole::kSharedDown || role == TensorRole::kSharedExpertGate;
}

// A q8 or q4 query projection is cut into its heads' parts along panels of kPanelRows rows.
void check_latent_heads(const ModelConfig& config, const WeightFormats& formats) {
  const AttentionConfig& a = config.attention;
  if (a.kind != AttentionKind::kLatent) return;
  const DType kept =
      kept_dtype(TensorRole::kLatentQB, stored_dtype(config, TensorRole::kLatentQB), formats);
  if (!is_quantised(kept)) return;
  if (a.qk_nope_head_dim % kPanelRows == 0 && a.qk_rope_head_dim % kPanelRows == 0) return;
  fail(ErrorKind::kInput, "qk_nope_head_dim ", a.qk_nope_head_dim, " and qk_rope_head_dim ",
       a.qk_rope_head_dim, " cannot be cut out of a ", to_string(kept),
       " projection, which wants multiples of ", kPanelRows, "; use --dense-weights bf16");
}

int64_t kv_values_per_token(const ModelConfig& config) {
  const AttentionConfig& a = config.attention;
  const int64_t per_layer = a.kind == AttentionKind::kLatent ? a.kv_lora_rank + a.qk_rope_head_dim
                                                             : 2 * a.num_kv_heads * a.head_dim;
  return per_layer * config.num_layers;
}

// A token and one position before it, in all layers: score and weighted sum.
int64_t attention_macs(const ModelConfig& config) {
  const AttentionConfig& a = config.attention;
  const int64_t each =
      a.kind == AttentionKind::kLatent ? 2 * a.kv_lora_rank + a.qk_rope_head_dim : 2 * a.head_dim;
  return each * a.num_heads * config.num_layers;
}

std::string shape_fingerprint(const ModelConfig& config) {
  Fingerprint hash;
  hash.add(config.family);
  for (const int64_t number :
       {int64_t{config.num_layers}, config.hidden_size, int64_t{config.num_experts},
        int64_t{config.top_k}, config.expert_width, config.dense_width, config.shared_width,
        config.vocab_size, config.attention.num_heads, config.attention.num_kv_heads,
        config.attention.head_dim, config.attention.kv_lora_rank}) {
    hash.add(static_cast<uint64_t>(number));
  }
  for (const bool is_moe : config.layer_is_moe) hash.add(uint64_t{is_moe});
  return hash.hex();
}

void add_shared_experts(ModelShape& shape, const ModelConfig& config,
                        const WeightFormats& formats) {
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    for (const TensorRole role : layer_roles(config, layer)) {
      if (!is_shared_expert(role)) continue;
      const WantedShape wanted = wanted_shape(config, role);
      shape.shared_bytes += role_bytes(config, role, formats);
      if (!wanted.is_vector) shape.shared_macs += wanted.rows * wanted.cols;
    }
    return;  // all MoE layers are alike
  }
}

}  // namespace

ModelShape model_shape(const ModelConfig& config, const WeightFormats& formats, DType kv_dtype) {
  check_latent_heads(config, formats);
  ModelShape shape;
  shape.family = config.family;
  shape.fingerprint = shape_fingerprint(config);
  shape.num_layers = config.num_layers;
  shape.hidden_size = config.hidden_size;
  shape.num_experts = config.num_experts;
  shape.top_k = config.top_k;
  shape.expert_width = config.expert_width;
  shape.vocab_size = config.vocab_size;
  shape.layer_is_moe = config.layer_is_moe;
  for (const TensorRole role : kExpertRoles) {
    shape.expert_bytes += role_bytes(config, role, formats);
  }
  add_shared_experts(shape, config, formats);
  const bool tied = config.tied_embeddings;
  shape.head_bytes =
      role_bytes(config, tied ? TensorRole::kEmbedding : TensorRole::kLmHead, formats);
  shape.head_macs = config.vocab_size * config.hidden_size;
  shape.attention_macs = attention_macs(config);
  shape.num_heads = static_cast<int>(config.attention.num_heads);
  for (const TensorRole role : global_roles(config)) {
    shape.coordinator_weight_bytes += role_bytes(config, role, formats);
  }
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (const TensorRole role : layer_roles(config, layer)) {
      const WantedShape wanted = wanted_shape(config, role);
      const int64_t bytes = role_bytes(config, role, formats);
      shape.coordinator_weight_bytes += bytes;
      shape.layer_bytes += bytes;
      if (!wanted.is_vector) shape.dense_macs += wanted.rows * wanted.cols;
    }
  }
  shape.kv_bytes_per_token = kv_values_per_token(config) * static_cast<int64_t>(size_of(kv_dtype));
  return shape;
}

}  // namespace colibri
