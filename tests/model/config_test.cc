#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

GenerationDefaults defaults_of(const std::string& json) {
  return parse_generation_defaults(json, "generation_config.json");
}

// config.json of a family with some keys added.
ModelConfig parse(const std::string& family, const std::string& keys = "") {
  return parse_model_config(
      R"({"model_type": ")" + family + '"' + (keys.empty() ? "" : ", " + keys) + "}",
      "config.json");
}

TEST(ConfigTest, AbsentKeysHaveTheDefaultsOfTheClass) {
  const ModelConfig qwen = parse("qwen3_moe");
  EXPECT_EQ(qwen.num_experts, 128);
  EXPECT_FALSE(qwen.router.renormalise);
  EXPECT_EQ(qwen.attention.head_dim, 64);  // 2048 / 32
  const ModelConfig mixtral = parse("mixtral");
  EXPECT_EQ(mixtral.attention.rope.theta, 1e6);
  EXPECT_FLOAT_EQ(mixtral.rms_norm_eps, 1e-5f);
  EXPECT_TRUE(mixtral.router.renormalise);
  EXPECT_EQ(parse("olmoe").attention.num_kv_heads, 16);
  EXPECT_EQ(parse("glm4_moe", R"("head_dim": 128)").attention.rope.rotary_dim, 64);
}

TEST(ConfigTest, DeepseekKnobs) {
  const ModelConfig config = parse("deepseek_v3");
  EXPECT_EQ(config.attention.kind, AttentionKind::kLatent);
  EXPECT_EQ(config.router.score, RouterScore::kSigmoid);
  EXPECT_TRUE(config.router.selection_bias);
  EXPECT_EQ(config.router.num_groups, 8);
  EXPECT_EQ(config.router.top_groups, 4);
  EXPECT_FLOAT_EQ(config.router.renormalise_eps, 1e-20f);
  EXPECT_EQ(config.shared_width, 2048);
  EXPECT_FALSE(config.layer_is_moe[2]);
  EXPECT_TRUE(config.layer_is_moe[3]);
  EXPECT_FLOAT_EQ(config.attention.latent_norm_eps, 1e-6f);
  EXPECT_TRUE(config.attention.rope.interleaved);
}

TEST(ConfigTest, LatentSoftmaxScaleHoldsTheSquareOfMscale) {
  const ModelConfig config = parse("deepseek_v3", R"("rope_scaling": {"type": "yarn", "factor": 40,
      "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096})");
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_FLOAT_EQ(config.attention.softmax_scale, static_cast<float>(m * m / std::sqrt(192.0)));
  EXPECT_FLOAT_EQ(config.attention.rope.attention_factor, 1.0f);
}

TEST(ConfigTest, NoQueryRankMeansOneProjectionWithoutBias) {
  const ModelConfig config = parse("deepseek_v3", R"("q_lora_rank": null, "attention_bias": true)");
  EXPECT_EQ(config.attention.q_lora_rank, 0);
  EXPECT_FALSE(config.attention.q_a_bias);
  EXPECT_TRUE(config.attention.kv_a_bias);
  EXPECT_TRUE(config.attention.o_bias);
}

TEST(ConfigTest, BiasesDifferByFamily) {
  EXPECT_TRUE(parse("qwen3_moe", R"("attention_bias": true)").attention.o_bias);
  EXPECT_FALSE(parse("glm4_moe", R"("head_dim": 128, "attention_bias": true)").attention.o_bias);
  EXPECT_TRUE(parse("qwen2_moe").attention.q_bias);
  EXPECT_FALSE(parse("qwen2_moe").attention.o_bias);
  EXPECT_FALSE(parse("mixtral").attention.q_bias);
}

TEST(ConfigTest, DenseLayersOfTheQwenFamilies) {
  const ModelConfig config = parse("qwen2_moe", R"("num_hidden_layers": 6,
      "decoder_sparse_step": 2, "mlp_only_layers": [3])");
  const std::vector<bool> wanted{false, true, false, false, false, true};
  EXPECT_EQ(config.layer_is_moe, wanted);
}

TEST(ConfigTest, KimiIsReadAsDeepseek) {
  const ModelConfig config = parse("kimi_k2", R"("n_routed_experts": 384, "n_group": 1,
      "topk_group": 1, "num_attention_heads": 64, "num_key_value_heads": 64)");
  EXPECT_EQ(config.family, "deepseek_v3");
  EXPECT_EQ(config.num_experts, 384);
}

// The keys of the released DeepSeek-V3 configuration, without its quantisation.
TEST(ConfigTest, KeysOfReleasedDeepseekAreUnderstood) {
  const ModelConfig config = parse("deepseek_v3", R"("architectures": ["DeepseekV3ForCausalLM"],
      "attention_bias": false, "attention_dropout": 0.0, "auto_map": {"AutoConfig": "x.Y"},
      "aux_loss_alpha": 0.001, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1,
      "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
      "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512,
      "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
      "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
      "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
      "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "pretraining_tp": 1,
      "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
      "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
      "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
      "seq_aux": true, "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
      "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
      "v_head_dim": 128, "vocab_size": 129280)");
  EXPECT_EQ(config.attention.rope.type, RopeType::kYarn);
  EXPECT_EQ(config.eos_ids, std::vector<int32_t>{1});
}

// The keys of the released GLM-4.5.
TEST(ConfigTest, KeysOfReleasedGlmAreUnderstood) {
  const ModelConfig config = parse("glm4_moe", R"("architectures": ["Glm4MoeForCausalLM"],
      "attention_bias": true, "attention_dropout": 0.0, "pad_token_id": 151329,
      "eos_token_id": [151329, 151336, 151338], "head_dim": 128, "hidden_act": "silu",
      "hidden_size": 5120, "partial_rotary_factor": 0.5, "initializer_range": 0.02,
      "intermediate_size": 12288, "max_position_embeddings": 131072,
      "moe_intermediate_size": 1536, "norm_topk_prob": true, "num_attention_heads": 96,
      "n_group": 1, "topk_group": 1, "n_routed_experts": 160, "n_shared_experts": 1,
      "routed_scaling_factor": 2.5, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
      "num_hidden_layers": 92, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
      "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.54.0",
      "use_cache": true, "use_qk_norm": true, "vocab_size": 151552)");
  EXPECT_EQ(config.attention.qk_norm, QkNorm::kPerHead);
  EXPECT_EQ(config.eos_ids.size(), 3u);
}

struct Wrong {
  const char *family, *keys, *message;
};

TEST(ConfigTest, WrongNumbersAreInputErrors) {
  const Wrong cases[] = {
      {"qwen3_moe", R"("hidden_size": 0)", "hidden_size is 0, want an integer in [1, 1048576]"},
      {"qwen3_moe", R"("hidden_size": -8)", "hidden_size is -8"},
      {"qwen3_moe", R"("hidden_size": 4096.0)", "hidden_size is 4096.0"},
      {"qwen3_moe", R"("hidden_size": "4096")", "hidden_size is \"4096\""},
      {"qwen3_moe", R"("hidden_size": 1e30)", "hidden_size is 1e30"},
      {"qwen3_moe", R"("vocab_size": 99999999999)", "vocab_size is 99999999999"},
      {"qwen3_moe", R"("num_hidden_layers": 0)", "num_hidden_layers is 0"},
      {"qwen3_moe", R"("num_key_value_heads": 5)", "32 is not a multiple of num_key_value_heads 5"},
      {"qwen3_moe", R"("num_attention_heads": 36)", "2048 is not a multiple"},
      {"qwen3_moe", R"("num_experts_per_tok": 0)", "num_experts_per_tok is 0"},
      {"qwen3_moe", R"("num_experts_per_tok": 200)", "at most the number of experts, 128"},
      {"qwen3_moe", R"("num_experts": 8, "num_local_experts": 9)", "must agree"},
      {"qwen3_moe", R"("mlp_only_layers": [24])", "mlp_only_layers is 24"},
      {"qwen3_moe", R"("decoder_sparse_step": 0)", "decoder_sparse_step is 0"},
      {"qwen3_moe", R"("rms_norm_eps": 0.0)", "rms_norm_eps is 0.0"},
      {"qwen3_moe", R"("norm_topk_prob": 1)", "norm_topk_prob is 1, want true or false"},
      {"qwen3_moe", R"("eos_token_id": 151936)", "eos_token_id is 151936"},
      {"qwen3_moe", R"("head_dim": null)", "head_dim is null"},
      {"qwen3_moe", R"("head_dim": 33)", "rotary size is 33"},
      {"qwen3_moe",
       R"("hidden_size": 1048576, "moe_intermediate_size": 4194304, "num_experts": 16384,
          "head_dim": 128)",
       "sizes add up to"},
      {"olmoe", R"("head_dim": 64)", "want hidden_size / num_attention_heads"},
      {"deepseek_v3", R"("n_routed_experts": 250)", "250 is not a multiple of n_group 8"},
      {"deepseek_v3", R"("n_group": 256)", "leaves 1 expert in a group"},
      {"deepseek_v3", R"("topk_group": 9)", "topk_group is 9, want at most n_group, 8"},
      {"deepseek_v3", R"("topk_group": 1, "num_experts_per_tok": 33)", "keeps only 32 experts"},
      {"deepseek_v3", R"("num_key_value_heads": 64)", "want num_attention_heads, 128"},
      {"deepseek_v3", R"("head_dim": 128)", "head_dim is 128, want 64"},
      {"deepseek_v3", R"("n_group": null)", "n_group is null"},
  };
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.keys);
    EXPECT_ERROR(parse(wrong.family, wrong.keys), kInput, wrong.message);
  }
}

TEST(ConfigTest, WhatIsNotSupportedIsRefusedByName) {
  const Wrong cases[] = {
      {"gpt_oss", "", "model_type is \"gpt_oss\": unknown family; supported are qwen3_moe"},
      {"qwen3_moe", R"("hidden_act": "gelu")", "hidden_act is \"gelu\""},
      {"qwen3_moe", R"("use_sliding_window": true)", "sliding_window"},
      {"mixtral", R"("sliding_window": 4096)", "sliding_window is 4096"},
      {"qwen2_moe", R"("num_hidden_layers": 1, "layer_types": ["sliding_attention"])",
       "layer_types"},
      {"qwen3_moe", R"("new_thing": 3)", "unknown key new_thing (3)"},
      {"qwen3_moe", R"("quantization_config": {"quant_method": "gptq"})",
       "quantization_config: quant_method is \"gptq\": quantised checkpoints are read when"},
      {"deepseek_v3", R"("scoring_func": "softmax")", "scoring_func is \"softmax\""},
      {"deepseek_v3", R"("topk_method": "greedy")", "topk_method is \"greedy\""},
      {"deepseek_v3", R"("moe_layer_freq": 2)", "moe_layer_freq is 2"},
      {"qwen3_moe", R"("torch_dtype": "float8_e4m3fn")", "described by quantization_config"},
      {"qwen3_moe", R"("torch_dtype": "int8")", "torch_dtype is \"int8\""},
      {"qwen3_moe", R"("decoder_sparse_step": 100)", "no layer has experts"},
      {"qwen3_moe", R"("text_config": {"a": 1})", "text_config"},
      {"qwen3_moe", R"("is_encoder_decoder": true)", "is_encoder_decoder"},
  };
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.keys);
    EXPECT_ERROR(parse(wrong.family, wrong.keys), kUnsupported, wrong.message);
  }
}

// quantization_config with these keys.
std::string fp8(const std::string& keys) { return "\"quantization_config\": {" + keys + "}"; }

TEST(ConfigTest, ReleasedFp8FormsAreRead) {
  const char* const forms[] = {
      R"("activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
         "weight_block_size": [128, 128])",
      R"("quant_method": "fp8", "weight_block_size": [128, 128])",
      R"("activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
         "scale_fmt": "ue8m0", "weight_block_size": [128, 128])",
      R"("activation_scheme": "dynamic", "quant_method": "fp8", "weight_block_size": [128, 128],
         "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate"])",
      R"("quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": null)"};
  for (const char* form : forms) {
    SCOPED_TRACE(form);
    EXPECT_EQ(parse("deepseek_v3", fp8(form)).checkpoint_dtype, DType::kF8E4M3);
  }
}

TEST(ConfigTest, OtherFp8FormsAreRefusedByName) {
  const std::pair<const char*, const char*> forms[] = {
      {R"("quant_method": "fp8")", "weight_block_size is absent"},
      {R"("quant_method": "fp8", "weight_block_size": null)", "weight_block_size is absent"},
      {R"("quant_method": "fp8", "weight_block_size": [64, 128])",
       "weight_block_size is [64, 128]: quantised checkpoints are read when"},
      {R"("quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e5m2")",
       "fmt is \"e5m2\""},
      {R"("quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "static")",
       "activation_scheme is \"static\""},
      {R"("quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": "fp4")",
       "expert_dtype is \"fp4\""},
      {R"("quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_convert": ["x"])",
       "modules_to_convert is"},
      {R"("quant_method": "fp8", "weight_block_size": [128, 128], "new_thing": 1)",
       "quantization_config: unknown key new_thing (1)"},
      {R"("weight_block_size": [128, 128])", "quant_method is absent"},
      {R"("quant_method": "compressed-tensors")", "quant_method is \"compressed-tensors\""}};
  for (const auto& [form, message] : forms) {
    SCOPED_TRACE(form);
    EXPECT_ERROR(parse("deepseek_v3", fp8(form)), kUnsupported, message);
  }
}

TEST(ConfigTest, MalformedFp8FormsAreWrong) {
  const std::pair<const char*, const char*> forms[] = {
      {"\"quantization_config\": 3", "want a JSON object"},
      {R"("quantization_config": {"quant_method": 8})", "quant_method is 8, want a string"},
      {R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128.5, 128]})",
       "weight_block_size is 128.5"},
      {R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128],
          "ignored_layers": [1]})",
       "ignored_layers"}};
  for (const auto& [keys, message] : forms) {
    SCOPED_TRACE(keys);
    EXPECT_ERROR(parse("deepseek_v3", keys), kInput, message);
  }
}

TEST(ConfigTest, FilesThatAreNoConfigurationAreRefused) {
  EXPECT_ERROR(parse_model_config("", "c.json"), kInput, "c.json: not JSON");
  EXPECT_ERROR(parse_model_config("[]", "c.json"), kInput, "want a JSON object");
  EXPECT_ERROR(parse_model_config("{}", "c.json"), kInput, "model_type is absent");
  EXPECT_ERROR(parse_model_config(R"({"model_type": 3})", "c.json"), kInput, "model_type is 3");
  EXPECT_ERROR(parse_model_config("version https://git-lfs.github.com/spec/v1\n", "c.json"), kInput,
               "git-lfs pointer");
}

TEST(GenerationDefaultsTest, MissingKeysGiveGreedy) {
  const GenerationDefaults defaults = defaults_of("{}");
  EXPECT_FALSE(defaults.do_sample);
  EXPECT_EQ(defaults.temperature, 1.0f);
  EXPECT_TRUE(defaults.eos_ids.empty());
}

TEST(GenerationDefaultsTest, KeysAreReadAndWhatIsNotAppliedIsNamed) {
  const GenerationDefaults defaults = defaults_of(R"({"do_sample": true, "temperature": 0.7,
      "top_k": 20, "top_p": 0.8, "eos_token_id": [3, 4], "repetition_penalty": 1.05,
      "num_beams": 1, "transformers_version": "4.51.0"})");
  EXPECT_TRUE(defaults.do_sample);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.eos_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(defaults.not_applied, std::vector<std::string>{"repetition_penalty 1.05"});
}

TEST(GenerationDefaultsTest, WrongValuesAreRefused) {
  EXPECT_ERROR(defaults_of(R"({"top_p": 1.5})"), kInput, "top_p is 1.5");
  EXPECT_ERROR(defaults_of(R"({"temperature": -1})"), kInput, "temperature is -1");
}

}  // namespace
}  // namespace colibri
