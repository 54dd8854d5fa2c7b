#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

// What the 16 bits mean, from the definition: sign, exponent with its bias, fraction.
float by_definition(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * kInfinity : NAN;
  const double whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  const int power = (exponent == 0 ? 1 : exponent) - bias - fraction_bits;
  return sign * static_cast<float>(std::ldexp(whole, power));
}

TEST(DTypeTest, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kF32), 4u);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kF16), 2u);
  EXPECT_EQ(size_of(DType::kI8), 1u);
  EXPECT_EQ(size_of(DType::kI32), 4u);
  EXPECT_EQ(size_of(DType::kF8E4M3), 1u);
  EXPECT_STREQ(to_string(DType::kBF16), "bf16");
  EXPECT_STREQ(to_string(DType::kI32), "i32");
  EXPECT_STREQ(to_string(DType::kF8E4M3), "f8_e4m3");
  EXPECT_STREQ(to_string(DType::kQ8), "q8");
  EXPECT_STREQ(to_string(DType::kQ4), "q4");
}

TEST(DTypeTest, PackedTypesHaveNoSingleElement) {
  EXPECT_TRUE(is_quantised(DType::kQ8));
  EXPECT_TRUE(is_quantised(DType::kQ4));
  EXPECT_FALSE(is_quantised(DType::kI8));
  EXPECT_ERROR(size_of(DType::kQ8), kInternal, "q8");
  EXPECT_ERROR(size_of(DType::kQ4), kInternal, "q4");
}

TEST(DTypeTest, All65536BF16ValuesWidenExactly) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float want = by_definition(bits, 8, 7);
    const float got = bf16_to_float(bits);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : bits_of(want) == bits_of(got)) << i;
  }
}

TEST(DTypeTest, All65536F16ValuesWidenExactly) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float want = by_definition(bits, 5, 10);
    const float got = f16_to_float(bits);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : bits_of(want) == bits_of(got)) << i;
  }
}

TEST(DTypeTest, All65536BF16ValuesSurviveTheRoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const uint16_t back = float_to_bf16(bf16_to_float(bits));
    if (std::isnan(bf16_to_float(bits))) {
      ASSERT_TRUE(std::isnan(bf16_to_float(back))) << i;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(DTypeTest, All65536F16ValuesSurviveTheRoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const uint16_t back = float_to_f16(f16_to_float(bits));
    if (std::isnan(f16_to_float(bits))) {
      ASSERT_TRUE(std::isnan(f16_to_float(back))) << i;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

// Between every two neighbours of f16: below the middle down, above it up, at it to the even one.
TEST(DTypeTest, RoundingToF16IsToNearestTiesToEvenEverywhere) {
  for (uint32_t i = 0; i < 0x7bff; ++i) {
    const auto low = static_cast<uint16_t>(i), high = static_cast<uint16_t>(i + 1);
    const float middle = (f16_to_float(low) + f16_to_float(high)) / 2;  // exact in f32
    ASSERT_EQ(float_to_f16(middle), i % 2 == 0 ? low : high) << i;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 0.0f)), low) << i;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, kInfinity)), high) << i;
    ASSERT_EQ(float_to_f16(-middle), (i % 2 == 0 ? low : high) | 0x8000) << i;
  }
}

TEST(DTypeTest, F16OverflowBecomesInfinity) {
  EXPECT_EQ(float_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);  // halfway to 65536, and 65504 is odd
  EXPECT_EQ(float_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_f16(kInfinity), 0x7c00);
}

// S.EEEE.FFF, bias 7, no infinity, all ones is NaN; also as widen_to_float reads it.
TEST(DTypeTest, All256F8E4M3ValuesWidenExactly) {
  for (uint32_t i = 0; i < 256; ++i) {
    const auto bits = static_cast<uint8_t>(i);
    const int exponent = (bits >> 3) & 15, fraction = bits & 7;
    const double size =
        exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    const float want = static_cast<float>((bits & 0x80) != 0 ? -size : size);
    float widened;
    widen_to_float(DType::kF8E4M3, &bits, 1, &widened);
    for (const float got : {f8_e4m3_to_float(bits), widened}) {
      if ((bits & 0x7f) == 0x7f) {
        ASSERT_TRUE(std::isnan(got)) << i;
      } else {
        ASSERT_EQ(bits_of(got), bits_of(want)) << i;
      }
    }
  }
  EXPECT_EQ(f8_e4m3_to_float(0x7e), 448.0f);
}

TEST(DTypeTest, RoundingToBF16IsToNearestTiesToEven) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // a tie, down to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // a tie, up to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f807fffu)), 0x3f80);
  EXPECT_EQ(float_to_bf16(-0.0f), 0x8000);
}

TEST(DTypeTest, OverflowBecomesInfinity) {
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::max()), 0xff80);
  EXPECT_EQ(float_to_bf16(kInfinity), 0x7f80);
}

TEST(DTypeTest, NanStaysNanWhateverItsLowBits) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(bits))))) << bits;
  }
}

// No bf16 value lies nearer than the chosen one, for floats of every exponent.
TEST(DTypeTest, NoNeighbourIsNearer) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    const uint16_t got = float_to_bf16(value);
    if (!std::isfinite(bf16_to_float(got))) continue;  // has its own test above
    const double distance = std::abs(double{bf16_to_float(got)} - double{value});
    for (const int step : {-1, 1}) {
      const double other = bf16_to_float(static_cast<uint16_t>(got + step));
      if (std::isfinite(other)) {
        ASSERT_LE(distance, std::abs(other - double{value})) << value;
      }
    }
  }
}

TEST(DTypeTest, WideningReadsUnalignedSources) {
  const uint16_t values[] = {0x3c00, 0x4000, 0xc400};  // 1, 2, -4 in f16
  std::vector<unsigned char> bytes(1 + sizeof values);
  std::memcpy(bytes.data() + 1, values, sizeof values);
  float out[3];
  widen_to_float(DType::kF16, bytes.data() + 1, 3, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 2.0f);
  EXPECT_EQ(out[2], -4.0f);
  widen_to_float(DType::kBF16, bytes.data() + 1, 1, out);
  EXPECT_EQ(out[0], bf16_to_float(0x3c00));
}

TEST(DTypeTest, WideningF32CopiesBits) {
  const uint32_t nan_bits = 0x7f800123;
  float out = 0;
  widen_to_float(DType::kF32, &nan_bits, 1, &out);
  EXPECT_EQ(bits_of(out), nan_bits);
}

TEST(DTypeTest, WideningAnIntegerTypeIsABug) {
  float out;
  const int8_t value = 1;
  EXPECT_ERROR(widen_to_float(DType::kI8, &value, 1, &out), kInternal, "cannot widen i8");
}

}  // namespace
}  // namespace colibri
