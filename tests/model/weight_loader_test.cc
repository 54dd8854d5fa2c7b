#include "model/weight_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/quantised.h"
#include "model/tensor_source.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

// A source that holds one matrix, whatever is asked for.
class OneMatrix : public TensorSource {
 public:
  OneMatrix(DType dtype, int64_t rows, int64_t cols, const void* bytes)
      : bytes_(static_cast<const char*>(bytes)) {
    range_.name = "the.only.weight";
    range_.dtype = dtype;
    range_.rows = rows;
    range_.cols = cols;
    range_.size_bytes = static_cast<uint64_t>(matrix_bytes(dtype, rows, cols));
  }
  std::optional<std::string> text(const std::string&) const override { return std::nullopt; }
  bool has(const TensorKey&) const override { return true; }
  TensorRange range(const TensorKey&) const override { return range_; }
  void read(int, uint64_t offset_bytes, uint64_t size_bytes, void* into) const override {
    std::copy_n(bytes_ + offset_bytes, size_bytes, static_cast<char*>(into));
  }

 private:
  const char* bytes_;
  TensorRange range_;
};

std::vector<float> wavy(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.7f);
  return values;
}

std::string load_as(const TensorSource& source, DType kept) {
  const Checkpoint checkpoint(
      std::shared_ptr<const TensorSource>(std::shared_ptr<const TensorSource>(), &source));
  const TensorRange range = checkpoint.range({});
  std::string out(static_cast<size_t>(matrix_bytes(kept, range.rows, range.cols)), '\1');
  Buffer scratch;
  load_range(checkpoint, range, kept, out.data(), scratch);
  return out;
}

std::string packed(DType dtype, const std::vector<float>& wide, int64_t rows, int64_t cols) {
  std::string out(static_cast<size_t>(matrix_bytes(dtype, rows, cols)), '\0');
  EXPECT_TRUE(quantise_matrix(dtype, wide.data(), rows, cols, out.data()));
  return out;
}

// 9000 x 96 floats are read in two pieces; 9000 is no multiple of 16.
TEST(WeightLoaderTest, PiecesQuantiseToTheBytesOfTheWhole) {
  const std::vector<float> wide = wavy(9000 * 96);
  const OneMatrix source(DType::kF32, 9000, 96, wide.data());
  for (const DType kept : {DType::kQ8, DType::kQ4}) {
    EXPECT_TRUE(load_as(source, kept) == packed(kept, wide, 9000, 96)) << to_string(kept);
  }
}

TEST(WeightLoaderTest, Bf16QuantisesAsItsWidenedValues) {
  std::vector<uint16_t> stored;
  std::vector<float> wide;
  for (const float value : wavy(17 * 64)) {
    stored.push_back(float_to_bf16(value));
    wide.push_back(bf16_to_float(stored.back()));
  }
  const OneMatrix source(DType::kBF16, 17, 64, stored.data());
  EXPECT_TRUE(load_as(source, DType::kQ4) == packed(DType::kQ4, wide, 17, 64));
}

TEST(WeightLoaderTest, PiecesNarrowToTheBf16OfEveryValue) {
  const std::vector<float> wide = wavy(9000 * 96);
  const OneMatrix source(DType::kF32, 9000, 96, wide.data());
  const std::string got = load_as(source, DType::kBF16);
  const auto* bits = reinterpret_cast<const uint16_t*>(got.data());
  for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(bits[i], float_to_bf16(wide[i])) << i;
}

// At every place of a vector and past its end.
TEST(WeightLoaderTest, SpecialValuesNarrowAsOneByOne) {
  const float specials[] = {0x1.01p0f, 0x1.03p0f, -0x1.01p0f, 3.4e38f, INFINITY,
                            -INFINITY, 0x1p-149f, -0.0f,      NAN,     -NAN};
  for (const float special : specials) {
    for (size_t at = 0; at < 7; ++at) {
      std::vector<float> wide(7, 1.5f);
      wide[at] = special;
      const OneMatrix source(DType::kF32, 1, 7, wide.data());
      const std::string got = load_as(source, DType::kBF16);
      const auto* bits = reinterpret_cast<const uint16_t*>(got.data());
      for (size_t i = 0; i < 7; ++i) EXPECT_EQ(bits[i], float_to_bf16(wide[i])) << special << at;
    }
  }
}

TEST(WeightLoaderTest, WidthsThatHaveNoWholeGroupsAreRefusedByName) {
  const std::vector<float> wide = wavy(4 * 40);
  const OneMatrix source(DType::kF32, 4, 40, wide.data());
  EXPECT_ERROR(load_as(source, DType::kQ8), kInput,
               "\"the.only.weight\" is [4, 40]: its rows cannot be q8");
}

TEST(WeightLoaderTest, ValuesThatAreNotFiniteCannotBeQuantised) {
  std::vector<float> wide = wavy(4 * 64);
  wide[200] = NAN;
  const OneMatrix source(DType::kF32, 4, 64, wide.data());
  for (const DType kept : {DType::kQ8, DType::kQ4}) {
    EXPECT_ERROR(load_as(source, kept), kInput, "\"the.only.weight\" holds a value");
  }
}

TEST(WeightLoaderTest, StoredQ8StaysQ8) {
  const std::string stored = packed(DType::kQ8, wavy(20 * 64), 20, 64);
  const OneMatrix source(DType::kQ8, 20, 64, stored.data());
  EXPECT_TRUE(load_as(source, DType::kQ8) == stored);
}

TEST(WeightLoaderTest, StoredQ8AskedForAsAnotherIsRefused) {
  const std::string stored = packed(DType::kQ8, wavy(20 * 64), 20, 64);
  const OneMatrix source(DType::kQ8, 20, 64, stored.data());
  for (const DType kept : {DType::kBF16, DType::kF32, DType::kQ4}) {
    EXPECT_ERROR(load_as(source, kept), kUnsupported, "is stored as q8 and asked for as");
  }
}

}  // namespace
}  // namespace colibri
