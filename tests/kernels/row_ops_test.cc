// Norm, rotary positions, cache writes and the element-wise operations.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "tests/kernels/kernel_rig.h"

namespace colibri {
namespace {

const std::vector<int64_t> kWidths = {1, 15, 16, 17, 63, 64, 65, 100, 1056};

TEST(RmsNormTest, IsDotSquareRootAndTwoProductsBitForBit) {
  for (const int64_t width : kWidths) {
    const int64_t rows = 9, stride = width + 3;
    const std::vector<float> x = random_floats(rows * stride, 1);
    const std::vector<float> weight = random_floats(width, 2);
    std::vector<float> want = x;
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = &x[r * stride];
      const float mean = plain_dot(row, row, width) / static_cast<float>(width);
      const float factor = 1.0f / std::sqrt(mean + 1e-6f);
      for (int64_t i = 0; i < width; ++i) want[r * stride + i] = row[i] * factor * weight[i];
    }
    for (const Isa isa : available_isas()) {
      Rig rig(isa, 2);
      std::vector<float> out = x;  // in place
      rig.ops->rms_norm({.x = out.data(),
                         .weight = weight.data(),
                         .out = out.data(),
                         .num_rows = rows,
                         .width = width,
                         .x_stride = stride,
                         .out_stride = stride,
                         .eps = 1e-6f},
                        *rig.stream);
      EXPECT_EQ(difference(out, want), "") << to_string(isa) << " width " << width;
    }
  }
}

TEST(RmsNormTest, OutputRowsMayLieElsewhere) {
  Rig rig(best_isa());
  const std::vector<float> x = {3, 4, 9, 6, 8, 9};
  const std::vector<float> weight = {1, 2};
  std::vector<float> out(4);
  rig.ops->rms_norm({.x = x.data(),
                     .weight = weight.data(),
                     .out = out.data(),
                     .num_rows = 2,
                     .width = 2,
                     .x_stride = 3,
                     .out_stride = 2,
                     .eps = 0},
                    *rig.stream);
  const double root = std::sqrt(12.5);
  EXPECT_NEAR(out[0], 3 / root, 1e-6);
  EXPECT_NEAR(out[1], 2 * 4 / root, 1e-6);
  EXPECT_NEAR(out[2], 3 / root, 1e-6);
}

TEST(RopeAnglesTest, AreTheRoundedTrueValuesUpToAMillionPositions) {
  Rig rig(best_isa(), 2);
  const std::vector<int32_t> positions = {0, 1, 2, 63, 64, 1000, 32767, 131071, 999'999, 1 << 20};
  std::vector<float> inv_freq;
  for (int i = 0; i < 64; ++i) {
    inv_freq.push_back(static_cast<float>(std::pow(10000.0, -i / 64.0)));
  }
  const size_t count = positions.size() * inv_freq.size();
  std::vector<float> cos(count), sin(count);
  rig.ops->rope_angles({.positions = positions.data(),
                        .inv_freq = inv_freq.data(),
                        .cos = cos.data(),
                        .sin = sin.data(),
                        .num_tokens = static_cast<int64_t>(positions.size()),
                        .half_dim = 64,
                        .scale = 1.25f},
                       *rig.stream);
  for (size_t t = 0; t < positions.size(); ++t) {
    for (size_t i = 0; i < 64; ++i) {
      const double angle = static_cast<float>(positions[t]) * inv_freq[i];
      const double want_cos = 1.25 * std::cos(angle), want_sin = 1.25 * std::sin(angle);
      ASSERT_NEAR(cos[t * 64 + i], want_cos, std::fabs(want_cos) * 6e-8 + 1e-13) << angle;
      ASSERT_NEAR(sin[t * 64 + i], want_sin, std::fabs(want_sin) * 6e-8 + 1e-13) << angle;
    }
  }
}

// x [tokens, heads, head] with gaps; the rotation of a pair written plainly.
void expect_rope(bool interleaved, int64_t half_dim) {
  const int64_t tokens = 5, heads = 3, head = 2 * half_dim + 7, stride = heads * head + 2;
  const std::vector<float> x = random_floats(tokens * stride, 3);
  const std::vector<float> cos = random_floats(tokens * half_dim, 4);
  const std::vector<float> sin = random_floats(tokens * half_dim, 5);
  std::vector<float> want = x;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < half_dim; ++i) {
        float* at = &want[t * stride + h * head];
        float& a = interleaved ? at[2 * i] : at[i];
        float& b = interleaved ? at[2 * i + 1] : at[i + half_dim];
        const float c = cos[t * half_dim + i], s = sin[t * half_dim + i];
        const float turned = std::fmaf(a, c, -(b * s));
        b = std::fmaf(b, c, a * s);
        a = turned;
      }
    }
  }
  for (const Isa isa : available_isas()) {
    Rig rig(isa, 2);
    std::vector<float> out = x;
    rig.ops->rope({.x = out.data(),
                   .cos = cos.data(),
                   .sin = sin.data(),
                   .num_tokens = tokens,
                   .num_heads = heads,
                   .half_dim = half_dim,
                   .stride = stride,
                   .head_stride = head,
                   .interleaved = interleaved},
                  *rig.stream);
    EXPECT_EQ(difference(out, want), "") << to_string(isa) << " half_dim " << half_dim;
  }
}

TEST(RopeTest, RotatesHalvesAndLeavesTheRest) {
  for (const int64_t half_dim : {1, 15, 16, 17, 32, 50}) expect_rope(false, half_dim);
}

TEST(RopeTest, RotatesInterleavedPairsAndLeavesTheRest) {
  for (const int64_t half_dim : {1, 15, 16, 17, 32, 50}) expect_rope(true, half_dim);
}

TEST(EmbedTest, CopiesOrWidensTheRowOfEachId) {
  Rig rig(best_isa(), 2);
  const std::vector<float> table = from_bf16(to_bf16(random_floats(5 * 19, 6)));
  const std::vector<uint16_t> narrow = to_bf16(table);
  const std::vector<int32_t> ids = {4, 0, 4};
  for (const bool bf16 : {false, true}) {
    std::vector<float> out(3 * 19);
    const void* data = bf16 ? static_cast<const void*>(narrow.data()) : table.data();
    rig.ops->embed({.table = {data, bf16 ? DType::kBF16 : DType::kF32, 5, 19},
                    .ids = ids.data(),
                    .out = out.data(),
                    .num_tokens = 3},
                   *rig.stream);
    for (size_t t = 0; t < 3; ++t) {
      for (size_t i = 0; i < 19; ++i) EXPECT_EQ(out[t * 19 + i], table[ids[t] * 19 + i]);
    }
  }
}

TEST(KvWriteTest, PutsEachHeadsKeyAndValueIntoItsSlotAndTouchesNothingElse) {
  Rig rig(best_isa());
  const KvLayout layout{.dtype = DType::kF32, .num_kv_heads = 2, .key_dim = 3, .value_dim = 2};
  std::vector<float> pool(static_cast<size_t>(3 * layout.page_elements()));
  const std::vector<int32_t> pages = {2, 1};
  const KvRow row{.pages = pages.data(), .position = 64 + 5};
  const std::vector<float> keys = {1, 2, 3, 4, 5, 6}, values = {7, 8, 9, 10};
  rig.ops->kv_write({.layout = layout,
                     .pool = pool.data(),
                     .rows = &row,
                     .keys = keys.data(),
                     .values = values.data(),
                     .num_tokens = 1,
                     .key_stride = 6,
                     .value_stride = 4},
                    *rig.stream);
  std::vector<float> want(pool.size());
  float* page = want.data() + layout.page_elements();
  const auto put = [&](int64_t at, std::vector<float> what) {
    std::copy(what.begin(), what.end(), page + at);
  };
  put(5 * 3, {1, 2, 3});
  put(64 * 3 + 5 * 3, {4, 5, 6});
  put(2 * 64 * 3 + 5 * 2, {7, 8});
  put(2 * 64 * 3 + 64 * 2 + 5 * 2, {9, 10});
  EXPECT_EQ(difference(pool, want), "");
}

TEST(KvWriteTest, RoundsToBf16AsBaseDoes) {
  Rig rig(best_isa());
  std::vector<float> keys = random_floats(100, 7);
  keys[0] = 1.00390625f;  // half way between two bf16: to even
  keys[1] = 1.01171875f;
  keys[2] = std::nanf("");
  keys[3] = std::numeric_limits<float>::infinity();
  keys[4] = std::numeric_limits<float>::max();
  keys[5] = -0.0f;
  const KvLayout layout{.dtype = DType::kBF16,
                        .num_kv_heads = 1,
                        .key_dim = 100,
                        .value_dim = 60,
                        .shared_value = true};
  std::vector<uint16_t> pool(static_cast<size_t>(layout.page_elements()));
  const int32_t page = 0;
  const KvRow row{.pages = &page, .position = 1};
  rig.ops->kv_write({.layout = layout,
                     .pool = pool.data(),
                     .rows = &row,
                     .keys = keys.data(),
                     .num_tokens = 1,
                     .key_stride = 100},
                    *rig.stream);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(pool[100 + i], float_to_bf16(keys[i])) << keys[i];
}

TEST(GatherRowsTest, CopiesRowsInTheOrderAsked) {
  Rig rig(best_isa(), 2);
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> row = {2, 0, 2};
  std::vector<float> out(6);
  rig.ops->gather_rows(
      {.x = x.data(), .row = row.data(), .out = out.data(), .num_rows = 3, .width = 2},
      *rig.stream);
  EXPECT_EQ(out, (std::vector<float>{5, 6, 1, 2, 5, 6}));
}

TEST(SiluMulTest, IsTheFormulaBitForBitInPlaceAndOnThreads) {
  for (const int64_t count : {1, 15, 16, 17, 100, 300'001}) {
    const std::vector<float> gate = random_floats(count, 8), up = random_floats(count, 9);
    std::vector<float> want(gate.size());
    for (size_t i = 0; i < gate.size(); ++i) {
      want[i] = gate[i] / (1.0f + kernel_exp(-gate[i])) * up[i];
    }
    for (const Isa isa : available_isas()) {
      Rig rig(isa, 3);
      std::vector<float> out = gate;
      rig.ops->silu_mul({.gate = out.data(), .up = up.data(), .out = out.data(), .count = count},
                        *rig.stream);
      EXPECT_EQ(difference(out, want), "") << to_string(isa) << " count " << count;
    }
  }
}

TEST(ElementwiseTest, AddAddsAndClampKeepsNaN) {
  Rig rig(best_isa());
  std::vector<float> x = {1, -5, 5, std::nanf("")};
  const std::vector<float> other = {1, 1, 1, 1};
  rig.ops->add({.x = x.data(), .other = other.data(), .count = 4}, *rig.stream);
  EXPECT_EQ(x[0], 2);
  rig.ops->clamp({.x = x.data(), .count = 4, .low = -3, .high = 3}, *rig.stream);
  EXPECT_EQ(x[0], 2);
  EXPECT_EQ(x[1], -3);
  EXPECT_EQ(x[2], 3);
  EXPECT_TRUE(std::isnan(x[3]));
}

TEST(ElementwiseTest, SigmoidOfZeroIsOneHalf) {
  Rig rig(best_isa());
  std::vector<float> x = {0, 100, -100};
  rig.ops->sigmoid({.x = x.data(), .count = 3}, *rig.stream);
  EXPECT_EQ(x, (std::vector<float>{0.5f, 1.0f, 0.0f}));
}

TEST(CombineTest, AddsExpertsInOrderThenSharedThenResidual) {
  for (const int64_t hidden : kWidths) {
    const int64_t tokens = 7, top_k = 3;
    const std::vector<float> residual = random_floats(tokens * hidden, 10);
    const std::vector<float> results = random_floats(tokens * top_k * hidden, 11);
    const std::vector<float> weights = random_floats(tokens * top_k, 12);
    const std::vector<float> shared = random_floats(tokens * hidden, 13);
    const std::vector<float> gate = random_floats(tokens, 14);
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < tokens * top_k; ++i) {
      offsets.push_back((i * 5 % (tokens * top_k)) * hidden);
    }
    for (const int form : {0, 1, 2}) {  // no shared expert, shared, shared with a gate
      std::vector<float> want(residual.size());
      for (int64_t i = 0; i < tokens * hidden; ++i) {
        const int64_t t = i / hidden, d = i % hidden;
        float sum = 0;
        for (int64_t k = 0; k < top_k; ++k) {
          sum = std::fmaf(weights[t * top_k + k], results[offsets[t * top_k + k] + d], sum);
        }
        if (form == 1) sum = sum + shared[i];
        if (form == 2) sum = sum + shared[i] * gate[t];
        want[i] = residual[i] + sum;
      }
      for (const Isa isa : available_isas()) {
        Rig rig(isa, 2);
        std::vector<float> out = residual;  // in place
        rig.ops->combine({.residual = out.data(),
                          .results = results.data(),
                          .result_offset = offsets.data(),
                          .weights = weights.data(),
                          .shared = form > 0 ? shared.data() : nullptr,
                          .shared_gate = form == 2 ? gate.data() : nullptr,
                          .out = out.data(),
                          .num_tokens = tokens,
                          .top_k = top_k,
                          .hidden_size = hidden},
                         *rig.stream);
        EXPECT_EQ(difference(out, want), "") << to_string(isa) << " H " << hidden;
      }
    }
  }
}

TEST(CombineTest, TakesResultsInBf16AsTheNumbersTheyAre) {
  for (const int64_t hidden : kWidths) {
    const int64_t tokens = 3, top_k = 2;
    const std::vector<float> residual = random_floats(tokens * hidden, 10);
    const std::vector<uint16_t> results = to_bf16(random_floats(tokens * top_k * hidden, 11));
    const std::vector<float> wide = from_bf16(results);
    const std::vector<float> weights = random_floats(tokens * top_k, 12);
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < tokens * top_k; ++i) offsets.push_back(i * hidden);
    std::vector<float> out(residual.size()), want(residual.size());
    for (const Isa isa : available_isas()) {
      Rig rig(isa, 2);
      Combine op{.residual = residual.data(),
                 .results = wide.data(),
                 .result_offset = offsets.data(),
                 .weights = weights.data(),
                 .out = want.data(),
                 .num_tokens = tokens,
                 .top_k = top_k,
                 .hidden_size = hidden};
      rig.ops->combine(op, *rig.stream);
      op.results = nullptr;
      op.results_bf16 = results.data();
      op.out = out.data();
      rig.ops->combine(op, *rig.stream);
      EXPECT_EQ(difference(out, want), "") << to_string(isa) << " H " << hidden;
    }
  }
}

}  // namespace
}  // namespace colibri
