#include "model/tensor_names.h"

#include <array>
#include <charconv>

#include "base/error.h"

namespace colibri {
namespace {

constexpr std::array<MoeNaming, 1> kPlainNaming{{{"mlp", "gate_proj", "up_proj", "down_proj"}}};
// Released files have the first form, transformers 5 also packs under "mlp".
constexpr std::array<MoeNaming, 3> kMixtralNaming{{{"block_sparse_moe", "w1", "w3", "w2"},
                                                   {"mlp", "w1", "w3", "w2"},
                                                   {"mlp", "gate_proj", "up_proj", "down_proj"}}};

std::string in_layer(int layer, const std::string& rest) { return layer_prefix(layer) + rest; }

std::string shared_block(std::string_view family) {
  return family == "qwen2_moe" ? "mlp.shared_expert." : "mlp.shared_experts.";
}

WantedShape matrix(int64_t rows, int64_t cols) { return {rows, cols, false}; }
WantedShape vector(int64_t size) { return {1, size, true}; }

WantedShape latent_shape(const ModelConfig& config, TensorRole role) {
  const AttentionConfig& a = config.attention;
  const int64_t h = config.hidden_size;
  const int64_t q_width = a.num_heads * (a.qk_nope_head_dim + a.qk_rope_head_dim);
  if (role == TensorRole::kLatentQ) return matrix(q_width, h);
  if (role == TensorRole::kLatentQA) return matrix(a.q_lora_rank, h);
  if (role == TensorRole::kLatentQABias || role == TensorRole::kLatentQANorm) {
    return vector(a.q_lora_rank);
  }
  if (role == TensorRole::kLatentQB) return matrix(q_width, a.q_lora_rank);
  if (role == TensorRole::kLatentKvA) return matrix(a.kv_lora_rank + a.qk_rope_head_dim, h);
  if (role == TensorRole::kLatentKvABias) return vector(a.kv_lora_rank + a.qk_rope_head_dim);
  if (role == TensorRole::kLatentKvANorm) return vector(a.kv_lora_rank);
  return matrix(a.num_heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank);
}

WantedShape query_shape(const ModelConfig& config, TensorRole role) {
  const AttentionConfig& a = config.attention;
  const int64_t h = config.hidden_size;
  const int64_t q_width = a.num_heads * a.head_dim;
  const int64_t kv_width = a.num_kv_heads * a.head_dim;
  const bool is_latent = a.kind == AttentionKind::kLatent;
  const bool is_full = a.qk_norm == QkNorm::kFullWidth;
  if (role == TensorRole::kQ) return matrix(q_width, h);
  if (role == TensorRole::kK || role == TensorRole::kV) return matrix(kv_width, h);
  if (role == TensorRole::kO) return matrix(h, is_latent ? a.num_heads * a.v_head_dim : q_width);
  if (role == TensorRole::kQBias) return vector(q_width);
  if (role == TensorRole::kKBias || role == TensorRole::kVBias) return vector(kv_width);
  if (role == TensorRole::kOBias) return vector(h);
  if (role == TensorRole::kQNorm) return vector(is_full ? q_width : a.head_dim);
  return vector(is_full ? kv_width : a.head_dim);
}

// The part of the name inside a layer, for roles whose name is the same in every family.
const char* fixed_name(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionNorm:
      return "input_layernorm.weight";
    case TensorRole::kMlpNorm:
      return "post_attention_layernorm.weight";
    case TensorRole::kQ:
    case TensorRole::kLatentQ:
      return "self_attn.q_proj.weight";
    case TensorRole::kK:
      return "self_attn.k_proj.weight";
    case TensorRole::kV:
      return "self_attn.v_proj.weight";
    case TensorRole::kO:
      return "self_attn.o_proj.weight";
    case TensorRole::kQBias:
      return "self_attn.q_proj.bias";
    case TensorRole::kKBias:
      return "self_attn.k_proj.bias";
    case TensorRole::kVBias:
      return "self_attn.v_proj.bias";
    case TensorRole::kOBias:
      return "self_attn.o_proj.bias";
    case TensorRole::kQNorm:
      return "self_attn.q_norm.weight";
    case TensorRole::kKNorm:
      return "self_attn.k_norm.weight";
    case TensorRole::kLatentQA:
      return "self_attn.q_a_proj.weight";
    case TensorRole::kLatentQABias:
      return "self_attn.q_a_proj.bias";
    case TensorRole::kLatentQANorm:
      return "self_attn.q_a_layernorm.weight";
    case TensorRole::kLatentQB:
      return "self_attn.q_b_proj.weight";
    case TensorRole::kLatentKvA:
      return "self_attn.kv_a_proj_with_mqa.weight";
    case TensorRole::kLatentKvABias:
      return "self_attn.kv_a_proj_with_mqa.bias";
    case TensorRole::kLatentKvANorm:
      return "self_attn.kv_a_layernorm.weight";
    case TensorRole::kLatentKvB:
      return "self_attn.kv_b_proj.weight";
    case TensorRole::kDenseGate:
      return "mlp.gate_proj.weight";
    case TensorRole::kDenseUp:
      return "mlp.up_proj.weight";
    case TensorRole::kDenseDown:
      return "mlp.down_proj.weight";
    case TensorRole::kSharedExpertGate:
      return "mlp.shared_expert_gate.weight";
    case TensorRole::kEmbedding:
    case TensorRole::kFinalNorm:
    case TensorRole::kLmHead:
    case TensorRole::kRouter:
    case TensorRole::kRouterBias:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
    case TensorRole::kSharedDown:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown:
      break;
  }
  fail(ErrorKind::kInternal, "no fixed tensor name for role ", to_string(role));
}

void add_attention_roles(const AttentionConfig& a, std::vector<TensorRole>& roles) {
  const auto add_if = [&roles](bool wanted, TensorRole role) {
    if (wanted) roles.push_back(role);
  };
  if (a.kind == AttentionKind::kLatent) {
    const bool has_rank = a.q_lora_rank > 0;
    add_if(!has_rank, TensorRole::kLatentQ);
    add_if(has_rank, TensorRole::kLatentQA);
    add_if(has_rank && a.q_a_bias, TensorRole::kLatentQABias);
    add_if(has_rank, TensorRole::kLatentQANorm);
    add_if(has_rank, TensorRole::kLatentQB);
    roles.push_back(TensorRole::kLatentKvA);
    add_if(a.kv_a_bias, TensorRole::kLatentKvABias);
    roles.push_back(TensorRole::kLatentKvANorm);
    roles.push_back(TensorRole::kLatentKvB);
  } else {
    roles.insert(roles.end(), {TensorRole::kQ, TensorRole::kK, TensorRole::kV});
    add_if(a.q_bias, TensorRole::kQBias);
    add_if(a.k_bias, TensorRole::kKBias);
    add_if(a.v_bias, TensorRole::kVBias);
    add_if(a.qk_norm != QkNorm::kNone, TensorRole::kQNorm);
    add_if(a.qk_norm != QkNorm::kNone, TensorRole::kKNorm);
  }
  roles.push_back(TensorRole::kO);
  add_if(a.o_bias, TensorRole::kOBias);
}

}  // namespace

WantedShape wanted_shape(const ModelConfig& config, TensorRole role) {
  const int64_t h = config.hidden_size;
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kLmHead:
      return matrix(config.vocab_size, h);
    case TensorRole::kFinalNorm:
    case TensorRole::kAttentionNorm:
    case TensorRole::kMlpNorm:
      return vector(h);
    case TensorRole::kQ:
    case TensorRole::kK:
    case TensorRole::kV:
    case TensorRole::kO:
    case TensorRole::kQBias:
    case TensorRole::kKBias:
    case TensorRole::kVBias:
    case TensorRole::kOBias:
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
      return query_shape(config, role);
    case TensorRole::kLatentQ:
    case TensorRole::kLatentQA:
    case TensorRole::kLatentQANorm:
    case TensorRole::kLatentQB:
    case TensorRole::kLatentQABias:
    case TensorRole::kLatentKvABias:
    case TensorRole::kLatentKvA:
    case TensorRole::kLatentKvANorm:
    case TensorRole::kLatentKvB:
      return latent_shape(config, role);
    case TensorRole::kRouter:
      return matrix(config.num_experts, h);
    case TensorRole::kRouterBias:
      return vector(config.num_experts);
    case TensorRole::kDenseGate:
    case TensorRole::kDenseUp:
      return matrix(config.dense_width, h);
    case TensorRole::kDenseDown:
      return matrix(h, config.dense_width);
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
      return matrix(config.shared_width, h);
    case TensorRole::kSharedDown:
      return matrix(h, config.shared_width);
    case TensorRole::kSharedExpertGate:
      return matrix(1, h);
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
      return matrix(config.expert_width, h);
    case TensorRole::kExpertDown:
      return matrix(h, config.expert_width);
  }
  fail(ErrorKind::kInternal, "TensorRole value ", static_cast<int>(role));
}

std::vector<TensorRole> global_roles(const ModelConfig& config) {
  std::vector<TensorRole> roles;
  roles.reserve(3);
  roles.push_back(TensorRole::kEmbedding);
  roles.push_back(TensorRole::kFinalNorm);
  if (!config.tied_embeddings) roles.push_back(TensorRole::kLmHead);
  return roles;
}

std::vector<TensorRole> layer_roles(const ModelConfig& config, int layer) {
  std::vector<TensorRole> roles;
  roles.reserve(24);
  roles.push_back(TensorRole::kAttentionNorm);
  add_attention_roles(config.attention, roles);
  roles.push_back(TensorRole::kMlpNorm);
  if (!config.layer_is_moe[static_cast<size_t>(layer)]) {
    roles.insert(roles.end(),
                 {TensorRole::kDenseGate, TensorRole::kDenseUp, TensorRole::kDenseDown});
    return roles;
  }
  roles.push_back(TensorRole::kRouter);
  if (config.router.selection_bias) roles.push_back(TensorRole::kRouterBias);
  if (config.shared_width > 0) {
    roles.insert(roles.end(),
                 {TensorRole::kSharedGate, TensorRole::kSharedUp, TensorRole::kSharedDown});
    if (config.shared_gate) roles.push_back(TensorRole::kSharedExpertGate);
  }
  return roles;
}

std::span<const MoeNaming> moe_namings(std::string_view family) {
  if (family == "mixtral") return kMixtralNaming;
  return kPlainNaming;
}

std::vector<TensorKey> tensor_keys(const ModelConfig& config) {
  std::vector<TensorKey> keys;
  for (const TensorRole role : global_roles(config)) keys.push_back({role, -1, -1});
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (const TensorRole role : layer_roles(config, layer)) keys.push_back({role, layer, -1});
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    for (int expert = 0; expert < config.num_experts; ++expert) {
      for (const TensorRole role : kExpertRoles) keys.push_back({role, layer, expert});
    }
  }
  return keys;
}

std::string layer_prefix(int layer) { return "model.layers." + std::to_string(layer) + "."; }

std::string tensor_name(std::string_view family, TensorRole role, int layer,
                        const MoeNaming& naming) {
  if (role == TensorRole::kEmbedding) return "model.embed_tokens.weight";
  if (role == TensorRole::kFinalNorm) return "model.norm.weight";
  if (role == TensorRole::kLmHead) return "lm_head.weight";
  const std::string block = std::string(naming.block) + ".";
  if (role == TensorRole::kRouter) return in_layer(layer, block + "gate.weight");
  if (role == TensorRole::kRouterBias) {
    return in_layer(layer, block + "gate.e_score_correction_bias");
  }
  const std::string shared = shared_block(family);
  if (role == TensorRole::kSharedGate) return in_layer(layer, shared + "gate_proj.weight");
  if (role == TensorRole::kSharedUp) return in_layer(layer, shared + "up_proj.weight");
  if (role == TensorRole::kSharedDown) return in_layer(layer, shared + "down_proj.weight");
  return in_layer(layer, fixed_name(role));
}

std::string split_expert_name(const MoeNaming& naming, TensorRole role, int layer, int expert) {
  const char* matrix_name = role == TensorRole::kExpertGate ? naming.gate
                            : role == TensorRole::kExpertUp ? naming.up
                                                            : naming.down;
  return in_layer(layer, std::string(naming.block) + ".experts." + std::to_string(expert) + "." +
                             matrix_name + ".weight");
}

std::string packed_expert_name(const MoeNaming& naming, TensorRole role, int layer) {
  const bool is_down = role == TensorRole::kExpertDown;
  return in_layer(layer, std::string(naming.block) +
                             (is_down ? ".experts.down_proj" : ".experts.gate_up_proj"));
}

std::string reason_to_ignore(std::string_view name, bool has_elements, const ModelConfig& config) {
  if (!has_elements) return "empty tensor";
  if (name.ends_with("rotary_emb.inv_freq")) return "rotary frequencies are computed";
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return "";
  const std::string_view rest = name.substr(kLayers.size());
  int64_t layer = -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  const bool is_layer = error == std::errc() && end != rest.data() + rest.size() && *end == '.';
  if (is_layer && layer >= config.num_layers) return "layer after the last one (prediction layer)";
  return "";
}

bool may_be_fp8(TensorRole role) { return !is_always_f32(role) && role != TensorRole::kEmbedding; }

std::string scale_name(std::string_view weight_name) {
  return std::string(weight_name).append(kScaleSuffix);
}

std::string quantised_form(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {
      {".weight_scale",
       "FP8 with a scale a tensor or channel, and compressed-tensors, are not supported"},
      {".input_scale", "FP8 with fixed activation scales is not supported"},
      {".qweight", "GPTQ and AWQ checkpoints are not supported"},
      {".qzeros", "GPTQ and AWQ checkpoints are not supported"},
      {".scales", "GPTQ and AWQ checkpoints are not supported"},
      {".g_idx", "GPTQ checkpoints are not supported"},
      {".weight_packed", "compressed-tensors checkpoints are not supported"},
      {".weight_shape", "compressed-tensors checkpoints are not supported"},
      {".weight_zero_point", "compressed-tensors checkpoints are not supported"},
      {".absmax", "bitsandbytes checkpoints are not supported"},
      {".quant_map", "bitsandbytes checkpoints are not supported"},
      {"_proj_blocks", "MXFP4 checkpoints are not supported"},
      {"_proj_scales", "MXFP4 checkpoints are not supported"}};
  for (const auto& [suffix, why] : kForms) {
    if (name.ends_with(suffix)) return std::string(why);
  }
  return "";
}

}  // namespace colibri
