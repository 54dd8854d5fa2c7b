#include "model/families.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "model/common_fields.h"

namespace colibri {
namespace {

void refuse_sliding_window(JsonFields& fields) {
  fields.unsupported("sliding_window",
                     "an active sliding window (use_sliding_window) is not supported");
}

void set_qkvo_bias(AttentionConfig& attention, bool qkv, bool o) {
  attention.q_bias = attention.k_bias = attention.v_bias = qkv;
  attention.o_bias = o;
}

ModelConfig read_qwen3_moe(JsonFields& fields) {
  ModelConfig config;
  read_common(fields,
              {.vocab_size = 151936,
               .hidden_size = 2048,
               .num_layers = 24,
               .num_heads = 32,
               .num_kv_heads = 4,
               .max_positions = 32768,
               .rms_norm_eps = 1e-6},
              config);
  read_head_dim(fields, false, config);
  read_plain_rope(fields, {}, config);
  const bool bias = fields.bool_or("attention_bias", false);
  set_qkvo_bias(config.attention, bias, bias);
  config.attention.qk_norm = QkNorm::kPerHead;
  const bool use_window = fields.bool_or("use_sliding_window", false);
  const bool is_null = fields.find("sliding_window") != nullptr && !fields.has("sliding_window");
  if (use_window && !is_null) refuse_sliding_window(fields);
  fields.without_effect({"max_window_layers"});
  refuse_other_layer_types(fields, config);
  read_expert_count(fields, "num_experts", "num_local_experts", 128, config);
  read_top_k(fields, 8, config);
  config.expert_width = fields.int_or("moe_intermediate_size", 768, kSizeRange);
  config.dense_width = fields.int_or("intermediate_size", 6144, kSizeRange);
  config.router.renormalise = fields.bool_or("norm_topk_prob", false);
  read_sparse_step_layers(fields, config);
  return config;
}

// Whether qwen2_moe's own rule makes any layer slide.
bool any_layer_slides(JsonFields& fields) {
  const int64_t max_window_layers = fields.int_or("max_window_layers", 28, {0, int64_t{1} << 31});
  const bool use_window = fields.bool_or("use_sliding_window", false);
  const bool is_full_by_list = fields.has("layer_types");
  return use_window && max_window_layers > 0 && !is_full_by_list;
}

ModelConfig read_qwen2_moe(JsonFields& fields) {
  ModelConfig config;
  read_common(fields,
              {.vocab_size = 151936,
               .hidden_size = 2048,
               .num_layers = 24,
               .num_heads = 16,
               .num_kv_heads = 16,
               .max_positions = 32768,
               .rms_norm_eps = 1e-6},
              config);
  read_head_dim(fields, false, config);
  read_plain_rope(fields, {}, config);
  set_qkvo_bias(config.attention, fields.bool_or("qkv_bias", true), false);
  refuse_other_layer_types(fields, config);
  if (any_layer_slides(fields)) refuse_sliding_window(fields);
  fields.without_effect({"sliding_window"});
  read_expert_count(fields, "num_experts", "num_local_experts", 60, config);
  read_top_k(fields, 4, config);
  config.expert_width = fields.int_or("moe_intermediate_size", 1408, kSizeRange);
  config.dense_width = fields.int_or("intermediate_size", 5632, kSizeRange);
  config.shared_width = fields.int_or("shared_expert_intermediate_size", 5632, kSizeRange);
  config.shared_gate = true;
  config.router.renormalise = fields.bool_or("norm_topk_prob", false);
  read_sparse_step_layers(fields, config);
  return config;
}

ModelConfig read_mixtral(JsonFields& fields) {
  ModelConfig config;
  read_common(fields,
              {.vocab_size = 32000,
               .hidden_size = 4096,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 8,
               .max_positions = 4096 * 32,
               .rms_norm_eps = 1e-5,
               .null_kv_heads = true},
              config);
  read_head_dim(fields, true, config);
  read_plain_rope(fields, {.theta = 1e6}, config);
  if (fields.has("sliding_window")) refuse_sliding_window(fields);
  refuse_other_layer_types(fields, config);
  fields.without_effect({"sliding_window", "router_jitter_noise"});  // jitter is for training only
  read_expert_count(fields, "num_local_experts", "num_experts", 8, config);
  read_top_k(fields, 2, config);
  config.expert_width = fields.int_or("intermediate_size", 14336, kSizeRange);
  config.router.renormalise = true;
  config.layer_is_moe.assign(static_cast<size_t>(config.num_layers), true);
  return config;
}

ModelConfig read_olmoe(JsonFields& fields) {
  ModelConfig config;
  read_common(fields,
              {.vocab_size = 50304,
               .hidden_size = 2048,
               .num_layers = 16,
               .num_heads = 16,
               .num_kv_heads = 0,
               .max_positions = 4096,
               .rms_norm_eps = 1e-5,
               .null_kv_heads = true},
              config);
  read_head_dim(fields, false, config);
  AttentionConfig& attention = config.attention;
  if (attention.head_dim * attention.num_heads != config.hidden_size) {
    // The norms over the full width are made for hidden / heads whatever head_dim says.
    fail(ErrorKind::kInput, fields.where(), ": head_dim is ", attention.head_dim,
         ", want hidden_size / num_attention_heads, ", config.hidden_size, " / ",
         attention.num_heads);
  }
  read_plain_rope(fields, {}, config);
  const bool bias = fields.bool_or("attention_bias", false);
  set_qkvo_bias(attention, bias, bias);
  attention.qk_norm = QkNorm::kFullWidth;
  attention.clip_qkv =
      static_cast<float>(fields.optional_real("clip_qkv", kScaleFactorRange).value_or(0));
  fields.without_effect({"sliding_window"});  // its attention has no window
  refuse_other_layer_types(fields, config);
  read_expert_count(fields, "num_experts", "num_local_experts", 64, config);
  read_top_k(fields, 8, config);
  config.expert_width = fields.int_or("intermediate_size", 2048, kSizeRange);
  config.router.renormalise = fields.bool_or("norm_topk_prob", false);
  config.layer_is_moe.assign(static_cast<size_t>(config.num_layers), true);
  return config;
}

struct SigmoidDefaults {
  int64_t num_experts, top_k, num_groups, top_groups, first_dense, expert_width, dense_width;
  double scale;
};

void check_groups(const JsonFields& fields, const ModelConfig& config) {
  const RouterConfig& router = config.router;
  if (config.num_experts % router.num_groups != 0) {
    fail(ErrorKind::kInput, fields.where(), ": n_routed_experts ", config.num_experts,
         " is not a multiple of n_group ", router.num_groups);
  }
  const int group_size = config.num_experts / router.num_groups;
  if (group_size < 2) {
    fail(ErrorKind::kInput, fields.where(), ": n_group ", router.num_groups, " leaves ", group_size,
         " expert in a group, want at least 2 (a group's score is the sum of its best two)");
  }
  if (router.top_groups > router.num_groups) {
    fail(ErrorKind::kInput, fields.where(), ": topk_group is ", router.top_groups,
         ", want at most n_group, ", router.num_groups);
  }
  if (config.top_k > router.top_groups * group_size) {
    fail(ErrorKind::kInput, fields.where(), ": num_experts_per_tok is ", config.top_k,
         " but topk_group keeps only ", router.top_groups * group_size, " experts");
  }
}

// Router, shared experts and dense layers of deepseek_v3 and glm4_moe.
void read_sigmoid_moe(JsonFields& fields, const SigmoidDefaults& defaults, ModelConfig& config) {
  constexpr IntRange kShared{0, 1024};
  read_expert_count(fields, "n_routed_experts", "num_local_experts", defaults.num_experts, config);
  read_top_k(fields, defaults.top_k, config);
  RouterConfig& router = config.router;
  router.score = RouterScore::kSigmoid;
  router.selection_bias = true;
  router.num_groups = static_cast<int>(fields.int_or("n_group", defaults.num_groups, kExpertRange));
  router.top_groups =
      static_cast<int>(fields.int_or("topk_group", defaults.top_groups, kExpertRange));
  router.renormalise = fields.bool_or("norm_topk_prob", true);
  router.renormalise_eps = 1e-20f;
  router.scale = static_cast<float>(
      fields.real_or("routed_scaling_factor", defaults.scale, kScaleFactorRange));
  check_groups(fields, config);
  config.expert_width = fields.int_or("moe_intermediate_size", defaults.expert_width, kSizeRange);
  config.dense_width = fields.int_or("intermediate_size", defaults.dense_width, kSizeRange);
  config.shared_width = config.expert_width * fields.int_or("n_shared_experts", 1, kShared);
  const int64_t first_moe =
      fields.int_or("first_k_dense_replace", defaults.first_dense, {0, kLayerRange.max});
  for (int layer = 0; layer < config.num_layers; ++layer) {
    config.layer_is_moe.push_back(layer >= first_moe);
  }
  // Prediction layers stand after the last layer and are not run.
  fields.without_effect({"num_nextn_predict_layers", "num_mtp_layers", "sliding_window"});
  refuse_other_layer_types(fields, config);
}

// Keys of the released code that transformers' class does not read; other values would mean another
// model.
void check_fixed_deepseek_keys(JsonFields& fields) {
  if (fields.string_or("scoring_func", "sigmoid") != "sigmoid") {
    fields.unsupported("scoring_func", "want sigmoid");
  }
  if (fields.string_or("topk_method", "noaux_tc") != "noaux_tc") {
    fields.unsupported("topk_method", "want noaux_tc");
  }
  if (fields.int_or("moe_layer_freq", 1, {1, kLayerRange.max}) != 1) {
    fields.unsupported("moe_layer_freq", "want 1");
  }
}

void check_derived_head_sizes(JsonFields& fields, const AttentionConfig& attention) {
  if (attention.num_kv_heads != attention.num_heads) {
    fail(ErrorKind::kInput, fields.where(), ": num_key_value_heads is ", attention.num_kv_heads,
         ", want num_attention_heads, ", attention.num_heads, ", with latent attention");
  }
  const std::array<std::pair<const char*, int64_t>, 2> derived{
      {{"head_dim", attention.qk_rope_head_dim},
       {"qk_head_dim", attention.qk_nope_head_dim + attention.qk_rope_head_dim}}};
  for (const auto& [key, wanted] : derived) {
    const int64_t got = fields.int_or(key, wanted, kSizeRange);
    if (got == wanted) continue;
    fail(ErrorKind::kInput, fields.where(), ": ", key, " is ", got, ", want ", wanted,
         " as qk_nope_head_dim and qk_rope_head_dim give it");
  }
}

void read_latent_attention(JsonFields& fields, ModelConfig& config) {
  constexpr IntRange kRank{1, 1 << 18};
  constexpr IntRange kHeadDim{1, 1 << 14};
  AttentionConfig& attention = config.attention;
  attention.kind = AttentionKind::kLatent;
  attention.kv_lora_rank = fields.int_or("kv_lora_rank", 512, kRank);
  attention.q_lora_rank = fields.find("q_lora_rank") == nullptr
                              ? 1536
                              : fields.optional_int("q_lora_rank", kRank).value_or(0);
  attention.qk_nope_head_dim = fields.int_or("qk_nope_head_dim", 128, kHeadDim);
  attention.qk_rope_head_dim = fields.int_or("qk_rope_head_dim", 64, kHeadDim);
  attention.v_head_dim = fields.int_or("v_head_dim", 128, kHeadDim);
  attention.head_dim = attention.qk_nope_head_dim + attention.qk_rope_head_dim;
  attention.latent_norm_eps = 1e-6f;  // the norms' own default, whatever rms_norm_eps says
  check_derived_head_sizes(fields, attention);
  const bool bias = fields.bool_or("attention_bias", false);
  attention.q_a_bias = bias && attention.q_lora_rank > 0;
  attention.kv_a_bias = attention.o_bias = bias;
  const ParsedRope parsed = read_rope(
      fields, {.head_dim = attention.qk_rope_head_dim, .max_positions = config.max_positions});
  attention.rope = parsed.rope;
  attention.rope.interleaved = fields.bool_or("rope_interleave", true);
  attention.softmax_scale =
      static_cast<float>(parsed.latent_scale / std::sqrt(static_cast<double>(attention.head_dim)));
}

ModelConfig read_deepseek_v3(JsonFields& fields) {
  ModelConfig config;
  read_common(fields,
              {.vocab_size = 129280,
               .hidden_size = 7168,
               .num_layers = 61,
               .num_heads = 128,
               .num_kv_heads = 128,
               .max_positions = 4096,
               .rms_norm_eps = 1e-6,
               .null_kv_heads = true},
              config);
  read_latent_attention(fields, config);
  read_sigmoid_moe(fields,
                   {.num_experts = 256,
                    .top_k = 8,
                    .num_groups = 8,
                    .top_groups = 4,
                    .first_dense = 3,
                    .expert_width = 2048,
                    .dense_width = 18432,
                    .scale = 2.5},
                   config);
  check_fixed_deepseek_keys(fields);
  return config;
}

ModelConfig read_glm4_moe(JsonFields& fields) {
  ModelConfig config;
  read_common(fields,
              {.vocab_size = 151552,
               .hidden_size = 4096,
               .num_layers = 46,
               .num_heads = 96,
               .num_kv_heads = 8,
               .max_positions = 131072,
               .rms_norm_eps = 1e-5},
              config);
  read_head_dim(fields, false, config);
  read_plain_rope(fields, {.allow_partial = true, .partial_rotary_factor = 0.5}, config);
  set_qkvo_bias(config.attention, fields.bool_or("attention_bias", false), false);
  if (fields.bool_or("use_qk_norm", false)) config.attention.qk_norm = QkNorm::kPerHead;
  read_sigmoid_moe(fields,
                   {.num_experts = 128,
                    .top_k = 8,
                    .num_groups = 1,
                    .top_groups = 1,
                    .first_dense = 1,
                    .expert_width = 1408,
                    .dense_width = 10944,
                    .scale = 1.0},
                   config);
  return config;
}

struct Family {
  const char* model_type;
  const char* family;  // what the forward pass and the tensor names go by
  ModelConfig (*read)(JsonFields&);
};

constexpr std::array<Family, 7> kFamilies{{{"qwen3_moe", "qwen3_moe", read_qwen3_moe},
                                           {"mixtral", "mixtral", read_mixtral},
                                           {"olmoe", "olmoe", read_olmoe},
                                           {"deepseek_v3", "deepseek_v3", read_deepseek_v3},
                                           {"glm4_moe", "glm4_moe", read_glm4_moe},
                                           {"qwen2_moe", "qwen2_moe", read_qwen2_moe},
                                           {"kimi_k2", "deepseek_v3", read_deepseek_v3}}};

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

ModelConfig read_family(const std::string& model_type, JsonFields& fields) {
  for (const Family& family : kFamilies) {
    if (model_type != family.model_type) continue;
    ModelConfig config = family.read(fields);
    config.family = family.family;
    fields.refuse_unread();
    return config;
  }
  std::string known;
  for (const std::string& name : family_names()) known += (known.empty() ? "" : ", ") + name;
  fields.unsupported("model_type", "unknown family; supported are " + known);
}

}  // namespace colibri
