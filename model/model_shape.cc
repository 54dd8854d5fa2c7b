#include "base/error.h"
#include "model/config.h"
#include "model/fingerprint.h"
#include "model/tensor_names.h"

namespace colibri {
namespace {

// Norms, biases and the router are kept in f32 whatever the weights are.
bool is_kept_wide(TensorRole role, const WantedShape& shape) {
  return shape.is_vector || role == TensorRole::kRouter || role == TensorRole::kSharedExpertGate;
}

int64_t role_bytes(const ModelConfig& config, TensorRole role, size_t element_bytes) {
  const WantedShape shape = wanted_shape(config, role);
  const size_t each = is_kept_wide(role, shape) ? size_of(DType::kF32) : element_bytes;
  return shape.rows * shape.cols * static_cast<int64_t>(each);
}

int64_t kv_values_per_token(const ModelConfig& config) {
  const AttentionConfig& a = config.attention;
  const int64_t per_layer = a.kind == AttentionKind::kLatent ? a.kv_lora_rank + a.qk_rope_head_dim
                                                             : 2 * a.num_kv_heads * a.head_dim;
  return per_layer * config.num_layers;
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

}  // namespace

ModelShape model_shape(const ModelConfig& config, DType weight_dtype, DType kv_dtype) {
  const size_t element_bytes = size_of(weight_dtype == DType::kF16 ? DType::kF32 : weight_dtype);
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
    shape.expert_bytes += role_bytes(config, role, element_bytes);
  }
  for (const TensorRole role : global_roles(config)) {
    shape.coordinator_weight_bytes += role_bytes(config, role, element_bytes);
  }
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (const TensorRole role : layer_roles(config, layer)) {
      shape.coordinator_weight_bytes += role_bytes(config, role, element_bytes);
    }
  }
  shape.kv_bytes_per_token = kv_values_per_token(config) * static_cast<int64_t>(size_of(kv_dtype));
  return shape;
}

}  // namespace colibri
