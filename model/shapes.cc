#include "model/shapes.h"

#include <array>
#include <utility>

namespace colibri {
namespace {

// As config.json would say it, so that one reader makes every ModelConfig.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kShapes{
    {{"demo", R"({"model_type": "qwen3_moe", "hidden_size": 192, "intermediate_size": 768,
        "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32,
        "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 128,
        "norm_topk_prob": true, "tie_word_embeddings": true, "vocab_size": 1536,
        "max_position_embeddings": 2048, "rope_theta": 10000.0})"},
     {"olmoe-1b-7b", R"({"model_type": "olmoe", "hidden_size": 2048, "intermediate_size": 1024,
        "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
        "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 4096, "rope_theta": 10000.0})"},
     {"qwen3-30b-a3b",
      R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
        "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768, "norm_topk_prob": true, "vocab_size": 151936,
        "max_position_embeddings": 40960, "rope_theta": 1000000.0})"},
     {"mixtral-8x7b", R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
        "max_position_embeddings": 32768, "rope_theta": 1000000.0})"},
     {"glm-4.5-air", R"({"model_type": "glm4_moe", "hidden_size": 4096, "intermediate_size": 10944,
        "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8,
        "head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "norm_topk_prob": true,
        "routed_scaling_factor": 1.0, "attention_bias": true, "use_qk_norm": false,
        "partial_rotary_factor": 0.5, "vocab_size": 151552, "max_position_embeddings": 131072,
        "rope_theta": 1000000.0})"},
     {"qwen3-235b-a22b", R"({"model_type": "qwen3_moe", "hidden_size": 4096,
        "intermediate_size": 12288, "num_hidden_layers": 94, "num_attention_heads": 64,
        "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1536, "norm_topk_prob": true, "vocab_size": 151936,
        "max_position_embeddings": 40960, "rope_theta": 1000000.0})"},
     {"glm-4.5", R"({"model_type": "glm4_moe", "hidden_size": 5120, "intermediate_size": 12288,
        "num_hidden_layers": 92, "num_attention_heads": 96, "num_key_value_heads": 8,
        "head_dim": 128, "n_routed_experts": 160, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1536, "first_k_dense_replace": 3, "norm_topk_prob": true,
        "routed_scaling_factor": 2.5, "attention_bias": true, "use_qk_norm": true,
        "partial_rotary_factor": 0.5, "vocab_size": 151552, "max_position_embeddings": 131072,
        "rope_theta": 1000000.0})"},
     {"deepseek-v3", R"({"model_type": "deepseek_v3", "hidden_size": 7168,
        "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
        "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8,
        "topk_group": 4, "first_k_dense_replace": 3, "norm_topk_prob": true,
        "routed_scaling_factor": 2.5, "vocab_size": 129280, "max_position_embeddings": 163840,
        "rope_theta": 10000.0, "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32,
        "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096}})"},
     {"kimi-k2", R"({"model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432,
        "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64,
        "num_key_value_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
        "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 1,
        "topk_group": 1, "first_k_dense_replace": 1, "norm_topk_prob": true,
        "routed_scaling_factor": 2.827, "vocab_size": 163840, "max_position_embeddings": 131072,
        "rope_theta": 50000.0, "rope_scaling": {"type": "yarn", "factor": 32.0, "beta_fast": 1.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096}})"}}};

}  // namespace

std::optional<ModelConfig> named_shape(std::string_view name) {
  for (const auto& [known, config_json] : kShapes) {
    if (name != known) continue;
    return parse_model_config(config_json, "shape " + std::string(name));
  }
  return std::nullopt;
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const auto& [name, config_json] : kShapes) names.emplace_back(name);
  return names;
}

}  // namespace colibri
