// quantise_rows and the products of q8 and q4 weights against their contract written plainly, bit
// for bit on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/quantised_rig.h"

namespace colibri {
namespace {

constexpr DType kQuantised[] = {DType::kQ8, DType::kQ4};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

QuantisedRows quantised_by(Rig& rig, const std::vector<float>& x, int64_t num_rows, int64_t width,
                           int64_t x_stride) {
  QuantisedRows rows(static_cast<size_t>(num_rows * activation_row_bytes(width)));
  rig.ops->quantise_rows({.x = x.data(),
                          .out = rows.data(),
                          .num_rows = num_rows,
                          .width = width,
                          .x_stride = x_stride},
                         *rig.stream);
  return rows;
}

// A product's operands, and what must come out.
struct Case {
  Case(DType dtype, int64_t num_tokens, int64_t num_outputs, int64_t width)
      : weight(PackedMatrix::random(dtype, num_outputs, width, 2)), tokens(num_tokens) {
    const std::vector<float> wide = random_floats(tokens * width, 1);
    x = plain_quantise(wide.data(), tokens, width, width);
  }
  std::vector<float> run(Rig& rig, int64_t first = 0, int64_t count = -1) const {
    const int64_t num = count < 0 ? tokens : count;
    std::vector<float> out(static_cast<size_t>(num * out_stride()), 7.0f);
    rig.ops->matmul({.x_quantised = x.data() + first * activation_row_bytes(weight.cols),
                     .weight = weight.view(),
                     .bias = bias.empty() ? nullptr : bias.data(),
                     .out = out.data(),
                     .num_tokens = num,
                     .out_stride = out_stride()},
                    *rig.stream);
    return out;
  }
  std::vector<float> want() const {
    std::vector<float> out(static_cast<size_t>(tokens * out_stride()), 7.0f);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t n = 0; n < weight.rows; ++n) {
        const float s = plain_qdot(x, t, weight, n);
        out[t * out_stride() + n] = bias.empty() ? s : s + bias[n];
      }
    }
    return out;
  }
  int64_t out_stride() const { return weight.rows + pad; }

  PackedMatrix weight;
  QuantisedRows x;
  std::vector<float> bias;
  int64_t tokens, pad = 3;
};

TEST(QuantiseRowsTest, FollowsItsRuleOnEverySet) {
  const int64_t rows = 5, width = 96, stride = 101;
  std::vector<float> x = random_floats(rows * stride, 3);
  for (int64_t i = 0; i < stride; ++i) x[static_cast<size_t>(i)] *= 1e-33f;  // below 2^-100
  for (int64_t i = 0; i < stride; ++i) x[static_cast<size_t>(stride + i)] *= 3e38f;
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 3}) {
      Rig rig(isa, threads);
      EXPECT_EQ(quantised_by(rig, x, rows, width, stride),
                plain_quantise(x.data(), rows, width, stride))
          << to_string(isa);
    }
  }
}

// x * (127 / m) with m = 127 is x itself: halves go to the even neighbour.
TEST(QuantiseRowsTest, TiesGoToTheEvenCode) {
  std::vector<float> x(32);
  const float values[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -127};
  const int want[] = {127, 0, 2, 2, 0, -2, -2, 126, -127};
  std::copy(std::begin(values), std::end(values), x.begin());
  for (const Isa isa : available_isas()) {
    Rig rig(isa);
    const QuantisedRows row = quantised_by(rig, x, 1, 32, 32);
    for (size_t i = 0; i < std::size(want); ++i) {
      EXPECT_EQ(static_cast<int8_t>(row[i]), want[i]) << to_string(isa) << " " << i;
    }
    float scale;
    std::memcpy(&scale, &row[32], sizeof scale);
    EXPECT_EQ(scale, 1.0f);
  }
}

TEST(QuantiseRowsTest, OnlyGroupsUnderTwoToTheMinusHundredVanish) {
  std::vector<float> x(64, 0.0f);
  x[5] = std::nextafter(0x1p-100f, 0.0f);
  x[40] = -0x1p-100f;
  for (const Isa isa : available_isas()) {
    Rig rig(isa);
    const QuantisedRows row = quantised_by(rig, x, 1, 64, 64);
    float scales[2];
    std::memcpy(scales, &row[64], sizeof scales);
    EXPECT_EQ(scales[0], 0.0f);
    EXPECT_EQ(scales[1], 0x1p-100f / 127);
    EXPECT_EQ(static_cast<int8_t>(row[5]), 0);
    EXPECT_EQ(static_cast<int8_t>(row[40]), -127);
  }
}

TEST(QuantiseRowsTest, AGroupThatIsNotFiniteHasScaleNanAndCodesZero) {
  for (const float bad : {kInfinity, -kInfinity, std::nanf(""), -std::nanf("")}) {
    for (const size_t at : {32u, 47u, 50u, 63u}) {
      std::vector<float> x(96, 1.0f);
      x[at] = bad;
      const QuantisedRows want = plain_quantise(x.data(), 1, 96, 96);
      for (const Isa isa : available_isas()) {
        Rig rig(isa);
        EXPECT_EQ(quantised_by(rig, x, 1, 96, 96), want) << to_string(isa) << " " << bad;
      }
    }
  }
}

TEST(QuantisedMatMulTest, IsQdotBitForBitOnEverySetAndAwkwardShape) {
  for (const DType dtype : kQuantised) {
    for (const int64_t width : {32, 64, 96, 1056}) {
      for (const int64_t outputs : {1, 15, 16, 17, 33}) {
        for (const int64_t tokens : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 23}) {
          Case c(dtype, tokens, outputs, width);
          if (outputs % 2 == 1) c.bias = random_floats(outputs, 3);
          const std::vector<float> want = c.want();
          for (const Isa isa : available_isas()) {
            Rig rig(isa);
            ASSERT_EQ(difference(c.run(rig), want), "")
                << to_string(isa) << " " << to_string(dtype) << " T " << tokens << " N " << outputs
                << " K " << width;
          }
        }
      }
    }
  }
}

TEST(QuantisedMatMulTest, WidthsPastOnePassOfTheKernelAreQdotToo) {
  for (const DType dtype : kQuantised) {
    for (const auto& [tokens, width] :
         {std::pair<int64_t, int64_t>{1, 40000}, {3, 9216}, {70, 1056}}) {
      Case c(dtype, tokens, 17, width);
      c.bias = random_floats(17, 5);
      const std::vector<float> want = c.want();
      for (const Isa isa : available_isas()) {
        Rig rig(isa);
        EXPECT_EQ(difference(c.run(rig), want), "") << to_string(isa) << " T " << tokens;
      }
    }
  }
}

TEST(QuantisedMatMulTest, OutputsPastOneTileOfTheKernelAreQdotToo) {
  for (const DType dtype : kQuantised) {
    for (const int64_t tokens : {1, 17}) {
      Case c(dtype, tokens, 2059, 32);
      c.bias = random_floats(2059, 5);
      const std::vector<float> want = c.want();
      for (const Isa isa : available_isas()) {
        Rig rig(isa);
        EXPECT_EQ(difference(c.run(rig), want), "") << to_string(isa) << " T " << tokens;
      }
    }
  }
}

TEST(QuantisedMatMulTest, ThreadsDoNotChangeABit) {
  for (const DType dtype : kQuantised) {
    const Case c(dtype, 19, 600, 416);
    const std::vector<float> want = c.want();
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 2, 3, 5}) {
        Rig rig(isa, threads);
        EXPECT_EQ(difference(c.run(rig), want), "") << to_string(isa) << " threads " << threads;
      }
    }
  }
}

TEST(QuantisedMatMulTest, ARowAloneHasTheBitsItHasAmongSeventy) {
  for (const DType dtype : kQuantised) {
    const Case c(dtype, 70, 67, 160);
    for (const Isa isa : available_isas()) {
      Rig rig(isa, 2);
      const std::vector<float> all = c.run(rig);
      for (int64_t t = 0; t < c.tokens; ++t) {
        const auto begin = all.begin() + t * c.out_stride();
        ASSERT_EQ(difference(c.run(rig, t, 1), {begin, begin + c.out_stride()}), "")
            << to_string(isa) << " row " << t;
      }
    }
  }
}

// Codes of the largest size everywhere: no sum of products may saturate.
TEST(QuantisedMatMulTest, ExtremeCodesDoNotSaturate) {
  constexpr uint16_t kOne = 0x3C00;
  for (const DType dtype : kQuantised) {
    for (const int code : {dtype == DType::kQ4 ? -8 : -127, dtype == DType::kQ4 ? 7 : 127}) {
      for (const float sign : {1.0f, -1.0f}) {
        const PackedMatrix weight(
            dtype, 16, 64, [&](int64_t, int64_t) { return code; },
            [](int64_t, int64_t) { return kOne; });
        const std::vector<float> x(64, sign * 127);
        const QuantisedRows rows = plain_quantise(x.data(), 1, 64, 64);
        for (const Isa isa : available_isas()) {
          Rig rig(isa);
          std::vector<float> out(16);
          rig.ops->matmul({.x_quantised = rows.data(),
                           .weight = weight.view(),
                           .out = out.data(),
                           .num_tokens = 1,
                           .out_stride = 16},
                          *rig.stream);
          const std::vector<float> want(16, 64 * 127 * sign * static_cast<float>(code));
          EXPECT_EQ(difference(out, want), "") << to_string(isa) << " " << to_string(dtype);
        }
      }
    }
  }
}

// Every finite half as a scale is widened exactly.
TEST(QuantisedMatMulTest, EveryFiniteScaleIsExact) {
  const int64_t outputs = 2 * 0x7C00;
  const PackedMatrix weight(
      DType::kQ8, outputs, 32, [](int64_t, int64_t k) { return k == 3 ? 1 : 0; },
      [](int64_t n, int64_t) { return static_cast<uint16_t>(n / 2 | (n % 2 << 15)); });
  std::vector<float> x(32, 0.0f);
  x[3] = 127;  // scale 1, code 127
  const QuantisedRows rows = plain_quantise(x.data(), 1, 32, 32);
  std::vector<float> want;
  for (int64_t n = 0; n < outputs; ++n) want.push_back(127 * weight.scale(n, 0) + 0.0f);
  for (const Isa isa : available_isas()) {
    Rig rig(isa);
    std::vector<float> out(want.size());
    rig.ops->matmul({.x_quantised = rows.data(),
                     .weight = weight.view(),
                     .out = out.data(),
                     .num_tokens = 1,
                     .out_stride = outputs},
                    *rig.stream);
    EXPECT_EQ(difference(out, want), "") << to_string(isa);
  }
}

TEST(QuantisedMatMulTest, ARowOfZerosGivesZerosAndARowWithNanGivesOnlyItselfNan) {
  for (const DType dtype : kQuantised) {
    const PackedMatrix weight = PackedMatrix::random(dtype, 33, 64, 8);
    for (const int64_t tokens : {3, 20}) {
      std::vector<float> x = random_floats(tokens * 64, 9);
      std::fill(x.begin(), x.begin() + 64, 0.0f);
      x[64 + 40] = std::nanf("");
      const QuantisedRows rows = plain_quantise(x.data(), tokens, 64, 64);
      for (const Isa isa : available_isas()) {
        Rig rig(isa);
        std::vector<float> out(static_cast<size_t>(tokens * 33));
        rig.ops->matmul({.x_quantised = rows.data(),
                         .weight = weight.view(),
                         .out = out.data(),
                         .num_tokens = tokens,
                         .out_stride = 33},
                        *rig.stream);
        for (size_t n = 0; n < 33; ++n) {
          EXPECT_EQ(out[n], 0.0f);
          EXPECT_TRUE(std::isnan(out[33 + n])) << to_string(isa);
          EXPECT_EQ(out[66 + n], plain_qdot(rows, 2, weight, static_cast<int64_t>(n)));
        }
      }
    }
  }
}

TEST(QuantisedMatMulTest, NoTokensIsNothing) {
  Rig rig(best_isa(), 2);
  MatMul none;
  none.weight = {nullptr, DType::kQ8, 5, 64};
  rig.ops->matmul(none, *rig.stream);
}

TEST(QuantisedBatchedMatMulTest, EveryHeadTakesTheSameRow) {
  const int64_t tokens = 9, heads = 3, outputs = 32, width = 96;
  const int64_t out_head = outputs + 2, out_row = heads * out_head + 3;
  const std::vector<float> wide = random_floats(tokens * width, 4);
  const QuantisedRows rows = plain_quantise(wide.data(), tokens, width, width);
  for (const DType dtype : kQuantised) {
    const PackedMatrix weight = PackedMatrix::random(dtype, heads * outputs, width, 5);
    std::vector<float> want(static_cast<size_t>(tokens * out_row), 7.0f);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t n = 0; n < heads * outputs; ++n) {
        want[t * out_row + n / outputs * out_head + n % outputs] = plain_qdot(rows, t, weight, n);
      }
    }
    for (const Isa isa : available_isas()) {
      Rig rig(isa, 2);
      std::vector<float> out(want.size(), 7.0f);
      rig.ops->batched_matmul({.x_quantised = rows.data(),
                               .weight = weight.view(),
                               .out = out.data(),
                               .num_tokens = tokens,
                               .num_heads = heads,
                               .out_stride = out_row,
                               .out_head_stride = out_head},
                              *rig.stream);
      EXPECT_EQ(difference(out, want), "") << to_string(isa) << " " << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace colibri
