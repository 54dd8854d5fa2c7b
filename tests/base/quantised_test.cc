// The packing of q8 and q4 by hand, and what the encoder promises.
#include "base/quantised.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

constexpr DType kQuantised[] = {DType::kQ8, DType::kQ4};
constexpr uint16_t kOne = 0x3c00;  // 1 in f16

struct Packed {
  Packed(DType type, const std::vector<float>& wide, int64_t num_rows, int64_t num_cols)
      : dtype(type),
        rows(num_rows),
        cols(num_cols),
        bytes(static_cast<size_t>(matrix_bytes(type, rows, cols)), 0xAA) {
    fits = quantise_matrix(dtype, wide.data(), rows, cols, bytes.data());
  }
  std::vector<float> decoded() const {
    std::vector<float> out(static_cast<size_t>(rows * cols));
    decode_matrix(dtype, bytes.data(), rows, cols, out.data());
    return out;
  }
  uint16_t half(size_t at) const { return static_cast<uint16_t>(bytes[at] | bytes[at + 1] << 8); }
  DType dtype;
  int64_t rows, cols;
  std::vector<unsigned char> bytes;
  bool fits = false;
};

std::vector<float> random_weights(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> weight(0.0f, 0.02f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = weight(engine);
  return values;
}

double squared_error(const float* got, const float* want, int64_t count) {
  double error = 0;
  for (int64_t i = 0; i < count; ++i) {
    error += (double{got[i]} - double{want[i]}) * (double{got[i]} - double{want[i]});
  }
  return error;
}

TEST(QuantisedSizesTest, APanelIsItsScalesPaddedToALineThenItsCodes) {
  EXPECT_EQ(panel_scale_bytes(32), 64);  // one group's 32 bytes, padded
  EXPECT_EQ(panel_scale_bytes(64), 64);
  EXPECT_EQ(panel_scale_bytes(96), 128);
  EXPECT_EQ(panel_bytes(DType::kQ8, 96), 128 + 96 * 16);
  EXPECT_EQ(panel_bytes(DType::kQ4, 96), 128 + 96 * 8);
}

TEST(QuantisedSizesTest, AMatrixIsWholePanels) {
  EXPECT_EQ(matrix_bytes(DType::kQ8, 16, 64), 64 + 1024);
  EXPECT_EQ(matrix_bytes(DType::kQ8, 17, 64), 2 * (64 + 1024));
  EXPECT_EQ(matrix_bytes(DType::kQ4, 0, 64), 0);
  EXPECT_EQ(matrix_bytes(DType::kBF16, 17, 64), 17 * 64 * 2);
}

TEST(QuantisedSizesTest, AnActivationRowHasAByteAValueAndAFloatAGroup) {
  EXPECT_EQ(activation_row_bytes(32), 36);
  EXPECT_EQ(activation_row_bytes(2048), 2304);
}

// Row 1 of 17, input 37 (group 1, q = 1, j = 1), and row 16, which begins the second panel. 127 in
// each group keeps its scale at one.
TEST(QuantisedPackingTest, Q8BytesLieWhereTheHeaderSays) {
  std::vector<float> wide(17 * 64, 0.0f);
  wide[64 + 32] = 127;
  wide[64 + 37] = -5;
  wide[16 * 64] = 127;
  wide[16 * 64 + 3] = 9;
  const Packed packed(DType::kQ8, wide, 17, 64);
  ASSERT_TRUE(packed.fits);
  EXPECT_EQ(packed.half((16 + 1) * 2), kOne);
  EXPECT_EQ(packed.half(1 * 2), 0);  // row 1, group 0: all zeros
  const size_t codes = 64, group = 512, panel = 64 + 1024;
  EXPECT_EQ(packed.bytes[codes + group + 1 * 4], 127);
  EXPECT_EQ(static_cast<int8_t>(packed.bytes[codes + group + 1 * 64 + 1 * 4 + 1]), -5);
  EXPECT_EQ(packed.half(panel), kOne);
  EXPECT_EQ(packed.bytes[panel + codes], 127);
  EXPECT_EQ(packed.bytes[panel + codes + 3], 9);
}

// Inputs 6 and 22 of a group share a byte: q = 1, j = 2, low and high four bits, kept as code + 8.
TEST(QuantisedPackingTest, Q4BytesLieWhereTheHeaderSays) {
  std::vector<float> wide(16 * 32, 0.0f);
  float* row = &wide[5 * 32];
  row[0] = -8;
  row[6] = 3;
  row[22] = -2;
  const Packed packed(DType::kQ4, wide, 16, 32);
  ASSERT_TRUE(packed.fits);
  EXPECT_EQ(packed.half(5 * 2), kOne);
  EXPECT_EQ(packed.bytes[64 + 5 * 4], 0 | 8 << 4);  // inputs 0 and 16
  EXPECT_EQ(packed.bytes[64 + 64 + 5 * 4 + 2], (3 + 8) | (-2 + 8) << 4);
  EXPECT_EQ(packed.bytes[64 + 3 * 64 + 5 * 4 + 3], 8 | 8 << 4);  // inputs 15 and 31
}

// Of either sign: plain Q4_0 divides by -8.
TEST(QuantisedPackingTest, PaddingIsScaleZero) {
  for (const DType dtype : kQuantised) {
    const int64_t cols = 96;  // an odd number of groups
    const Packed packed(dtype, random_weights(3 * cols, 1), 3, cols);
    ASSERT_TRUE(packed.fits);
    for (size_t group = 0; group < 3; ++group) {
      for (size_t row = 3; row < 16; ++row) {
        EXPECT_EQ(packed.half((group * 16 + row) * 2) & 0x7fff, 0);
      }
    }
    for (size_t at = 96; at < 128; ++at) EXPECT_EQ(packed.bytes[at], 0);
  }
}

TEST(QuantisedPackingTest, PaddedRowsAreCodeZero) {
  for (const DType dtype : kQuantised) {
    const Packed packed(dtype, std::vector<float>(32, 1.0f), 1, 32);
    const unsigned char zero = dtype == DType::kQ4 ? 0x88 : 0;
    for (size_t row = 1; row < 16; ++row) EXPECT_EQ(packed.bytes[64 + row * 4], zero);
  }
}

// The bytes are the layout's only definition, so decode is checked against them, not against
// quantise_matrix.
TEST(QuantisedDecodeTest, IsCodeTimesScale) {
  std::vector<unsigned char> q8(64 + 512), q4(64 + 256);
  for (std::vector<unsigned char>* bytes : {&q8, &q4}) {
    (*bytes)[2 * 2] = 0x00;
    (*bytes)[2 * 2 + 1] = 0xc1;  // row 2: -2.5
  }
  q8[64 + 7 * 64 + 2 * 4 + 3] = static_cast<unsigned char>(-127);
  q4[64 + 3 * 64 + 2 * 4 + 3] = 15 << 4 | 1;
  std::vector<float> out(3 * 32);
  decode_matrix(DType::kQ8, q8.data(), 3, 32, out.data());
  EXPECT_EQ(out[2 * 32 + 31], -127 * -2.5f);
  EXPECT_EQ(out[2 * 32 + 30], 0.0f);
  decode_matrix(DType::kQ4, q4.data(), 3, 32, out.data());
  EXPECT_EQ(out[2 * 32 + 15], -7 * -2.5f);
  EXPECT_EQ(out[2 * 32 + 31], 7 * -2.5f);
  EXPECT_EQ(out[2 * 32], -8 * -2.5f);
}

// Weights that are codes of one scale come back as they were: encoding loses nothing that the
// format can say.
TEST(QuantisedEncoderTest, ValuesOfTheFormatSurviveExactly) {
  std::mt19937 engine(4);
  for (const DType dtype : kQuantised) {
    const int64_t rows = 19, cols = 160;
    std::vector<float> wide(static_cast<size_t>(rows * cols));
    for (size_t i = 0; i < wide.size(); i += 32) {
      const float scale = f16_to_float(static_cast<uint16_t>(0x1000 + engine() % 0x4000));
      const int low = dtype == DType::kQ4 ? -8 : -127, high = dtype == DType::kQ4 ? 7 : 127;
      for (size_t k = 0; k < 32; ++k) {
        const int code = low + static_cast<int>(engine() % static_cast<unsigned>(high - low + 1));
        wide[i + k] = static_cast<float>(k == 7 ? low : code) * scale;
      }
    }
    const Packed packed(dtype, wide, rows, cols);
    ASSERT_TRUE(packed.fits);
    EXPECT_EQ(packed.decoded(), wide) << to_string(dtype);
  }
}

// GGUF's Q8_0: f16 scale of largest / 127, codes of x / scale rounded, -127..127. An f16 scale is
// within 2^-11 of it, so no code exceeds 127 by half.
TEST(QuantisedEncoderTest, Q8IsWithinHalfAStepOfEveryWeight) {
  const int64_t rows = 33, cols = 256;
  const std::vector<float> wide = random_weights(rows * cols, 5);
  const Packed packed(DType::kQ8, wide, rows, cols);
  const std::vector<float> got = packed.decoded();
  for (size_t i = 0; i < wide.size(); i += 32) {
    float largest = 0;
    for (size_t k = i; k < i + 32; ++k) largest = std::max(largest, std::fabs(wide[k]));
    for (size_t k = i; k < i + 32; ++k) {
      ASSERT_LE(std::fabs(got[k] - wide[k]), largest / 127 * 0.5626f) << k;
    }
  }
}

// Plain Q4_0: the value of largest magnitude becomes -8.
std::vector<float> plain_q4(const float* x) {
  float extreme = 0;
  for (int k = 0; k < 32; ++k) extreme = std::fabs(x[k]) > std::fabs(extreme) ? x[k] : extreme;
  const float scale = f16_to_float(float_to_f16(extreme / -8));
  const float inverse = scale == 0 ? 0 : 1 / scale;
  std::vector<float> decoded;
  for (int k = 0; k < 32; ++k) {
    const float code = std::nearbyint(std::clamp(x[k] * inverse, -8.0f, 7.0f));
    decoded.push_back(code * scale);
  }
  return decoded;
}

struct Errors {
  double searched = 0, plain = 0;
};

// Over all groups, having checked each.
Errors q4_errors(const std::vector<float>& wide, int64_t rows, int64_t cols) {
  const std::vector<float> got = Packed(DType::kQ4, wide, rows, cols).decoded();
  Errors all;
  for (size_t i = 0; i < wide.size(); i += 32) {
    const double error = squared_error(&got[i], &wide[i], 32);
    const double plain = squared_error(plain_q4(&wide[i]).data(), &wide[i], 32);
    EXPECT_LE(error, plain * (1 + 1e-5)) << i;  // the encoder compares in f32
    all.searched += error;
    all.plain += plain;
  }
  return all;
}

TEST(QuantisedEncoderTest, Q4IsNeverWorseThanPlainRoundingInAnyGroup) {
  const int64_t rows = 64, cols = 1056;
  std::vector<float> wide = random_weights(rows * cols, 6);
  for (size_t i = 0; i < wide.size(); i += 97) wide[i] *= 9;  // outliers
  const Errors errors = q4_errors(wide, rows, cols);
  EXPECT_LT(errors.searched, 0.95 * errors.plain);  // the search is worth something
}

// Scales of few bits, where the best of the search may round to a bad one.
TEST(QuantisedEncoderTest, Q4IsNeverWorseThanPlainRoundingOfTinyWeights) {
  const int64_t rows = 64, cols = 1056;
  for (const float size : {0x1p-12f, 0x1p-14f, 0x1p-15f}) {
    std::vector<float> wide = random_weights(rows * cols, 8);
    for (float& value : wide) value *= size;
    q4_errors(wide, rows, cols);
  }
}

TEST(QuantisedEncoderTest, ARowDoesNotDependOnItsNeighbours) {
  for (const DType dtype : kQuantised) {
    const int64_t rows = 21, cols = 96;
    const std::vector<float> wide = random_weights(rows * cols, 7);
    const std::vector<float> all = Packed(dtype, wide, rows, cols).decoded();
    for (int64_t row = 0; row < rows; ++row) {
      const std::vector<float> one(wide.begin() + row * cols, wide.begin() + (row + 1) * cols);
      const std::vector<float> want(all.begin() + row * cols, all.begin() + (row + 1) * cols);
      EXPECT_EQ(Packed(dtype, one, 1, cols).decoded(), want) << row;
    }
  }
}

// The scale would be a subnormal of one or two bits: it goes up rather than cut the largest value.
TEST(QuantisedEncoderTest, TinyWeightsKeepTheirLargestValueWithinAStep) {
  for (const DType dtype : kQuantised) {
    const std::vector<float> wide(32, 0x1.8p-18f);
    const Packed packed(dtype, wide, 1, 32);
    ASSERT_TRUE(packed.fits);
    for (const float value : packed.decoded()) EXPECT_NEAR(value, wide[0], 0x1p-24);
  }
}

TEST(QuantisedEncoderTest, WeightsTooSmallForAnyScaleBecomeZero) {
  for (const DType dtype : kQuantised) {
    const Packed packed(dtype, std::vector<float>(32, 1e-30f), 1, 32);
    ASSERT_TRUE(packed.fits);
    EXPECT_EQ(packed.decoded(), std::vector<float>(32, 0.0f));
  }
}

TEST(QuantisedEncoderTest, RefusesWhatIsNotFiniteWhereverItStands) {
  for (const DType dtype : kQuantised) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      for (const size_t at : {0u, 31u, 64u, 18u * 96 + 95}) {
        std::vector<float> wide(19 * 96, 0.5f);
        wide[at] = bad;
        EXPECT_FALSE(Packed(dtype, wide, 19, 96).fits) << to_string(dtype) << " " << bad;
      }
    }
  }
}

TEST(QuantisedEncoderTest, RefusesWhatNoF16ScaleReaches) {
  for (const auto& [dtype, codes] : {std::pair<DType, float>{DType::kQ8, 127}, {DType::kQ4, 8}}) {
    EXPECT_TRUE(Packed(dtype, std::vector<float>(32, codes * 65504), 1, 32).fits);
    EXPECT_FALSE(Packed(dtype, std::vector<float>(32, codes * 65600), 1, 32).fits);
  }
}

TEST(QuantisedEncoderTest, AWidthThatIsNoMultipleOfTheGroupIsABug) {
  std::vector<float> wide(48);
  std::vector<unsigned char> bytes(4096);
  EXPECT_ERROR(quantise_matrix(DType::kQ8, wide.data(), 1, 48, bytes.data()), kInternal,
               "multiple of 32 columns");
}

}  // namespace
}  // namespace colibri
