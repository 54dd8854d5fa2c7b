#include "model/shapes.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

TEST(ShapesTest, EveryNameGivesAModel) {
  for (const std::string& name : shape_names()) {
    const auto config = named_shape(name);
    ASSERT_TRUE(config.has_value()) << name;
    EXPECT_GT(model_shape(*config, {}, DType::kBF16).expert_bytes, 0) << name;
  }
  EXPECT_FALSE(named_shape("gpt-5").has_value());
}

// 3 matrices of 768 x 2048 in bf16; 48 layers of 2 x 4 heads x 128 in bf16.
TEST(ShapesTest, BytesOfQwen30b) {
  const ModelShape shape = model_shape(*named_shape("qwen3-30b-a3b"), {}, DType::kBF16);
  EXPECT_EQ(shape.expert_bytes, 3 * 768 * 2048 * 2);
  EXPECT_EQ(shape.kv_bytes_per_token, 48 * 2 * 4 * 128 * 2);
  EXPECT_EQ(shape.num_moe_layers(), 48);
}

// Latent attention keeps 512 + 64 values a layer.
TEST(ShapesTest, BytesOfDeepseekV3) {
  const ModelShape shape = model_shape(*named_shape("deepseek-v3"), {}, DType::kF32);
  EXPECT_EQ(shape.expert_bytes, 3 * 2048 * 7168 * 2);
  EXPECT_EQ(shape.kv_bytes_per_token, 61 * (512 + 64) * 4);
  EXPECT_EQ(shape.num_moe_layers(), 58);
}

// V 10, H 4, 1 layer, 2 heads of 2, 1 KV head, E 2, I 3, tied, no other parts: matrices in bf16 are
// embedding 40, q 16, k 8, v 8, o 16; f32 are norms 3 x 4, q and k norm 2 + 2, router 8.
TEST(ShapesTest, BytesOfATinyModelByHand) {
  const ModelConfig config = parse_model_config(
      R"({"model_type": "qwen3_moe", "vocab_size": 10, "hidden_size": 4, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "num_experts": 2,
          "num_experts_per_tok": 1, "moe_intermediate_size": 3, "tie_word_embeddings": true})",
      "tiny");
  const ModelShape shape = model_shape(config, {}, DType::kF32);
  EXPECT_EQ(shape.coordinator_weight_bytes, 88 * 2 + (12 + 4 + 8) * 4);
  EXPECT_EQ(shape.expert_bytes, 3 * 12 * 2);
  EXPECT_EQ(shape.kv_bytes_per_token, 2 * 2 * 4);
  EXPECT_EQ(shape.head_bytes, 40 * 2);
  EXPECT_EQ(shape.head_macs, 40);
  EXPECT_EQ(shape.layer_bytes, 48 * 2 + (8 + 4 + 8) * 4);
  EXPECT_EQ(shape.dense_macs, 48 + 8);         // q, k, v, o and the router
  EXPECT_EQ(shape.attention_macs, 2 * 2 * 2);  // 2 heads of 2: score and sum
  EXPECT_EQ(shape.expert_macs(), 3 * 12);
}

TEST(ShapesTest, HalfPrecisionWeightsAreKeptAsFloat) {
  ModelConfig config = *named_shape("mixtral-8x7b");
  config.checkpoint_dtype = DType::kF16;
  EXPECT_EQ(model_shape(config, {}, DType::kF32).expert_bytes, int64_t{3} * 4096 * 14336 * 4);
}

// 768 x 2048 in q4: 48 panels of 64 groups x (16 scales of 2 bytes + 256 bytes of codes).
TEST(ShapesTest, QuantisedExpertsTakeTheirPackedBytes) {
  const WeightFormats formats{.experts = WeightFormat::kQ4};
  const ModelConfig config = *named_shape("qwen3-30b-a3b");
  EXPECT_EQ(model_shape(config, formats, DType::kF32).expert_bytes, 3 * 48 * 64 * (32 + 256));
  EXPECT_EQ(model_shape(config, formats, DType::kF32).coordinator_weight_bytes,
            model_shape(config, {}, DType::kF32).coordinator_weight_bytes);
}

TEST(ShapesTest, FingerprintNamesTheShape) {
  const auto fingerprint = [](const ModelConfig& config) {
    return model_shape(config, {}, DType::kF32).fingerprint;
  };
  ModelConfig config = *named_shape("olmoe-1b-7b");
  const std::string first = fingerprint(config);
  EXPECT_EQ(first, fingerprint(*named_shape("olmoe-1b-7b")));
  config.top_k = 4;
  EXPECT_NE(first, fingerprint(config));
}

}  // namespace
}  // namespace colibri
