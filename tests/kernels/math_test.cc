// fma, exp and sigmoid: what every kernel stands on.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/kernel_rig.h"

namespace colibri {
namespace {

std::vector<float> fma_of(Isa isa, const std::vector<float>& a, const std::vector<float>& b,
                          const std::vector<float>& c) {
  std::vector<float> out(a.size());
  kernels_of(isa).fma(a.data(), b.data(), c.data(), out.data(), static_cast<int64_t>(a.size()));
  return out;
}

// All NaN are one: which one comes out is not fixed.
std::vector<float> with_one_nan(std::vector<float> values) {
  for (float& value : values) {
    if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

void expect_fma_is_exact(const std::vector<float>& a, const std::vector<float>& b,
                         const std::vector<float>& c) {
  std::vector<float> want(a.size());
  for (size_t i = 0; i < a.size(); ++i) want[i] = std::fmaf(a[i], b[i], c[i]);
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(difference(with_one_nan(fma_of(isa, a, b, c)), with_one_nan(want)), "")
        << to_string(isa);
  }
}

TEST(FmaTest, RoundsOnceOnRandomBitPatterns) {
  std::mt19937 engine(1);
  const size_t count = 2'000'003;
  std::vector<float> a(count), b(count), c(count);
  for (size_t i = 0; i < count; ++i) {
    a[i] = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    b[i] = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    c[i] = std::bit_cast<float>(static_cast<uint32_t>(engine()));
  }
  expect_fma_is_exact(a, b, c);
}

// (1 + i 2^-12)(1 + j 2^-12) with i and j odd ends in 2^-24, half a unit of the result: a tie that
// a far smaller addend decides, too small to be seen in a double.
TEST(FmaTest, RoundsOnceWhereDoubleRoundingWouldShow) {
  std::vector<float> a, b, c;
  for (int i = 1; i < 400; i += 2) {
    for (int j = 1; j < 400; j += 2) {
      for (const float tiny : {0x1p-60f, -0x1p-60f, 0x1p-149f, -0x1p-149f}) {
        a.push_back((i + j) % 4 == 0 ? -1.0f - i * 0x1p-12f : 1.0f + i * 0x1p-12f);
        b.push_back(1.0f + j * 0x1p-12f);
        c.push_back(tiny);
      }
    }
  }
  expect_fma_is_exact(a, b, c);
}

// k 2^-149 plus or minus 2^-150 (1 - 2^-32): just below a tie of two subnormal results.
TEST(FmaTest, RoundsOnceInTheSubnormalRange) {
  std::vector<float> a, b, c;
  for (int k = (1 << 22) - 1000; k < (1 << 22) + 1000; ++k) {
    for (const float sign : {1.0f, -1.0f}) {
      a.push_back(sign * 0x1.0001p-75f);
      b.push_back(0x1.fffep-76f);
      c.push_back(static_cast<float>(k) * 0x1p-149f);
    }
  }
  expect_fma_is_exact(a, b, c);
}

TEST(FmaTest, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), tiny = 0x1p-149f;
  const float huge = std::numeric_limits<float>::max();
  const std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f, inf,       -inf,
                                     tiny, -tiny, huge, -huge, 0x1p-126f, std::nanf("")};
  std::vector<float> a, b, c;
  for (const float x : values) {
    for (const float y : values) {
      for (const float z : values) {
        a.push_back(x);
        b.push_back(y);
        c.push_back(z);
      }
    }
  }
  expect_fma_is_exact(a, b, c);
}

// Steps through every exponent and sign, a few thousand numbers each.
std::vector<float> floats_of_all_exponents() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 1013) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

// Distance in units of the last place of the rounded true value.
double ulps_apart(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : 1e9;
  const float next = std::nextafter(std::fabs(rounded), std::numeric_limits<float>::infinity());
  const double unit = std::isinf(next) ? 0x1p104 : double{next} - std::fabs(double{rounded});
  return std::fabs(got - want) / unit;
}

TEST(ExpTest, IsWithinOneUnitInTheLastPlaceOverAllExponents) {
  const std::vector<float> x = floats_of_all_exponents();
  std::vector<float> got(x.size());
  kernels_of(best_isa()).exp(x.data(), got.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  float worst_x = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = ulps_apart(got[i], std::exp(double{x[i]}));
    if (apart > worst) worst_x = x[i];
    worst = std::max(worst, apart);
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  EXPECT_LE(worst, 1.0) << "at " << worst_x;
}

TEST(ExpTest, AllSetsGiveTheSameBits) {
  const std::vector<float> x = floats_of_all_exponents();
  std::vector<float> want(x.size()), got(x.size());
  portable_kernels().exp(x.data(), want.data(), static_cast<int64_t>(x.size()));
  for (const Isa isa : available_isas()) {
    kernels_of(isa).exp(x.data(), got.data(), static_cast<int64_t>(x.size()));
    EXPECT_EQ(difference(got, want), "") << to_string(isa);
  }
}

TEST(ExpTest, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kernel_exp(0.0f), 1.0f);
  EXPECT_EQ(kernel_exp(-0.0f), 1.0f);
  EXPECT_EQ(kernel_exp(inf), inf);
  EXPECT_EQ(kernel_exp(-inf), 0.0f);
  EXPECT_EQ(kernel_exp(200.0f), inf);
  EXPECT_EQ(kernel_exp(-103.0f), 0x1p-149f);
  EXPECT_TRUE(std::isnan(kernel_exp(std::nanf(""))));
}

TEST(SigmoidTest, IsCloseToTheTrueValueAndTheSameOnAllSets) {
  const std::vector<float> x = floats_of_all_exponents();
  std::vector<float> want(x.size()), got(x.size());
  portable_kernels().sigmoid(x.data(), want.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] < -80) continue;  // 1 + exp(-x) overflows there, and the result is 0
    ASSERT_LE(ulps_apart(want[i], 1.0 / (1.0 + std::exp(-double{x[i]}))), 2.5) << x[i];
  }
  for (const Isa isa : available_isas()) {
    kernels_of(isa).sigmoid(x.data(), got.data(), static_cast<int64_t>(x.size()));
    EXPECT_EQ(difference(got, want), "") << to_string(isa);
  }
}

TEST(IsaTest, NamesSayTheSet) {
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(Rig(isa).ops->name(), std::string("cpu/") + to_string(isa));
  }
}

}  // namespace
}  // namespace colibri
