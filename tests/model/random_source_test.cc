#include "model/random_source.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/quantised.h"
#include "model/shapes.h"
#include "model/weight_loader.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

Checkpoint random_demo(const WeightFormats& formats, uint64_t seed = 1) {
  return Checkpoint(make_random_source(*named_shape("demo"), formats, seed));
}

std::vector<char> bytes_of(const Checkpoint& checkpoint, const TensorKey& key) {
  const TensorRange range = checkpoint.range(key);
  std::vector<char> bytes(range.size_bytes);
  checkpoint.read(range, bytes.data());
  return bytes;
}

TEST(RandomSourceTest, MatricesAreStoredInTheFormTheyAreKeptIn) {
  const WeightFormats formats{.experts = WeightFormat::kQ4, .dense = WeightFormat::kQ8};
  const Checkpoint checkpoint = random_demo(formats);
  EXPECT_EQ(checkpoint.range({TensorRole::kExpertDown, 3, 15}).dtype, DType::kQ4);
  EXPECT_EQ(checkpoint.range({TensorRole::kO, 0, -1}).dtype, DType::kQ8);
  EXPECT_EQ(checkpoint.range({TensorRole::kEmbedding, -1, -1}).dtype, DType::kBF16);
  EXPECT_EQ(checkpoint.range({TensorRole::kRouter, 1, -1}).dtype, DType::kF32);
}

TEST(RandomSourceTest, EqualSeedsGiveEqualBytesAndExpertsDiffer) {
  const WeightFormats formats{.experts = WeightFormat::kQ8};
  const TensorKey key{TensorRole::kExpertGate, 2, 7};
  const auto bytes = bytes_of(random_demo(formats), key);
  EXPECT_EQ(bytes, bytes_of(random_demo(formats), key));
  EXPECT_NE(bytes, bytes_of(random_demo(formats, 2), key));
  EXPECT_NE(bytes, bytes_of(random_demo(formats), {TensorRole::kExpertGate, 2, 8}));
  EXPECT_NE(random_demo(formats).fingerprint(), random_demo(formats, 2).fingerprint());
}

// A packed matrix decodes to numbers of the wanted spread: its panels are whole.
TEST(RandomSourceTest, ValuesSpreadByOneOverTheRootOfTheWidth) {
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ4}) {
    const Checkpoint checkpoint = random_demo({.experts = format});
    const TensorRange range = checkpoint.range({TensorRole::kExpertUp, 0, 3});
    const auto bytes = bytes_of(checkpoint, {TensorRole::kExpertUp, 0, 3});
    std::vector<float> values(static_cast<size_t>(range.rows * range.cols));
    if (is_quantised(range.dtype)) {
      decode_matrix(range.dtype, bytes.data(), range.rows, range.cols, values.data());
    } else {
      widen_to_float(range.dtype, bytes.data(), values.size(), values.data());
    }
    double square = 0;
    for (const float value : values) square += static_cast<double>(value) * value;
    const double spread = std::sqrt(square / static_cast<double>(values.size()));
    EXPECT_NEAR(spread * std::sqrt(192.0), 1, 0.02) << to_string(format);
  }
}

TEST(RandomSourceTest, SummaryCountsTheBytesOfAllRanges) {
  const Checkpoint checkpoint = random_demo({.experts = WeightFormat::kQ4});
  EXPECT_EQ(checkpoint.summary().expert_bytes,
            4u * 16u * 3u * static_cast<uint64_t>(matrix_bytes(DType::kQ4, 128, 192)));
}

// What plans are made of: the shape's bytes are those that are read.
TEST(RandomSourceTest, ShapeOfMixedFormsCountsWhatIsRead) {
  const WeightFormats formats{.experts = WeightFormat::kQ4, .dense = WeightFormat::kQ8};
  const Checkpoint checkpoint = random_demo(formats);
  const ModelShape shape = model_shape(checkpoint.config(), formats, DType::kF32);
  const CheckpointSummary& summary = checkpoint.summary();
  EXPECT_EQ(static_cast<uint64_t>(shape.coordinator_weight_bytes),
            summary.total_bytes - summary.expert_bytes);
  EXPECT_EQ(static_cast<uint64_t>(shape.expert_bytes) * 4 * 16, summary.expert_bytes);
}

TEST(CutLayersTest, DenseLayersAndVocabularyKeepTheirShare) {
  const ModelConfig config = *named_shape("deepseek-v3");  // 61 layers, 3 of them dense
  const ModelConfig cut = cut_layers(config, 10, true);
  EXPECT_EQ(cut.num_layers, 10);
  EXPECT_EQ(cut.layer_is_moe, (std::vector<bool>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(cut.vocab_size, 129280 * 10 / 61 / 64 * 64);
  EXPECT_TRUE(cut_layers(config, 1, false).layer_is_moe[0]);
  EXPECT_EQ(cut_layers(config, 61, true).vocab_size, config.vocab_size);
}

TEST(CutLayersTest, MoreLayersThanTheShapeHasAreRefused) {
  EXPECT_ERROR(cut_layers(*named_shape("demo"), 5, false), kInput, "--layers is 5, want 1 to 4");
}

}  // namespace
}  // namespace colibri
