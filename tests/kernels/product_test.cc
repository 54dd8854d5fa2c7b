// matmul, batched_matmul and grouped_ffn against DOT written with fmaf, bit for bit.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/kernel_rig.h"

namespace colibri {
namespace {

struct Product {
  int64_t tokens, outputs, width;
  int64_t x_pad = 0, out_pad = 0;  // added to the strides
  bool bf16 = false, bias = false;
};

// A product's operands, and what must come out.
struct Case {
  explicit Case(const Product& p) : shape(p) {
    x = random_floats(p.tokens * x_stride(), 1);
    weight = random_floats(p.outputs * p.width, 2);
    if (p.bf16) {
      weight_bf16 = to_bf16(weight);
      weight = from_bf16(weight_bf16);
    }
    bias = random_floats(p.outputs, 3);
  }
  int64_t x_stride() const { return shape.width + shape.x_pad; }
  int64_t out_stride() const { return shape.outputs + shape.out_pad; }
  MatMul operands(std::vector<float>& out) const {
    const void* data = shape.bf16 ? static_cast<const void*>(weight_bf16.data()) : weight.data();
    return {.x = x.data(),
            .weight = {data, shape.bf16 ? DType::kBF16 : DType::kF32, shape.outputs, shape.width},
            .bias = shape.bias ? bias.data() : nullptr,
            .out = out.data(),
            .num_tokens = shape.tokens,
            .x_stride = x_stride(),
            .out_stride = out_stride()};
  }
  std::vector<float> run(Rig& rig) const {
    std::vector<float> out(static_cast<size_t>(shape.tokens * out_stride()), 7.0f);
    rig.ops->matmul(operands(out), *rig.stream);
    return out;
  }
  std::vector<float> want() const {
    std::vector<float> out(static_cast<size_t>(shape.tokens * out_stride()), 7.0f);
    for (int64_t t = 0; t < shape.tokens; ++t) {
      for (int64_t n = 0; n < shape.outputs; ++n) {
        const float s = plain_dot(&x[t * x_stride()], &weight[n * shape.width], shape.width);
        out[t * out_stride() + n] = shape.bias ? s + bias[n] : s;
      }
    }
    return out;
  }
  Product shape;
  std::vector<float> x, weight, bias;
  std::vector<uint16_t> weight_bf16;
};

TEST(MatMulTest, IsDotBitForBitOnEverySetAndAwkwardShape) {
  for (const Isa isa : available_isas()) {
    Rig rig(isa);
    for (const int64_t width : {1, 15, 16, 17, 63, 64, 65, 100}) {
      for (const int64_t outputs : {1, 3, 4, 5, 16, 17, 35}) {
        for (const int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
          Product p{tokens, outputs, width, width % 3, outputs % 4};
          p.bf16 = (tokens + outputs) % 2 == 0;
          p.bias = outputs % 2 == 1;
          const Case c(p);
          ASSERT_EQ(difference(c.run(rig), c.want()), "")
              << to_string(isa) << " T " << tokens << " N " << outputs << " K " << width;
        }
      }
    }
  }
}

TEST(MatMulTest, LargeShapeIsTheSameOnEverySetAndNumberOfThreads) {
  for (const bool bf16 : {false, true}) {
    const Case c({9, 1056, 800, 3, 5, bf16, true});
    const std::vector<float> want = c.want();
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 2, 3, 5}) {
        Rig rig(isa, threads);
        EXPECT_EQ(difference(c.run(rig), want), "") << to_string(isa) << " threads " << threads;
      }
    }
  }
}

TEST(MatMulTest, WidthPastOneChunkIsDotToo) {
  const Case c({19, 23, 5000, 0, 0, true, false});
  const std::vector<float> want = c.want();
  for (const Isa isa : available_isas()) {
    Rig rig(isa, 2);
    EXPECT_EQ(difference(c.run(rig), want), "") << to_string(isa);
  }
}

TEST(MatMulTest, ARowAloneHasTheBitsItHasAmongSeventy) {
  for (const bool bf16 : {false, true}) {
    const Case c({70, 67, 129, 2, 1, bf16, false});
    for (const Isa isa : available_isas()) {
      Rig rig(isa, 2);
      const std::vector<float> all = c.run(rig);
      for (int64_t t = 0; t < 70; ++t) {
        std::vector<float> row(67);
        MatMul alone = c.operands(row);
        alone.x += t * c.x_stride();
        alone.num_tokens = 1;
        rig.ops->matmul(alone, *rig.stream);
        const auto begin = all.begin() + t * c.out_stride();
        ASSERT_EQ(difference(row, {begin, begin + 67}), "") << to_string(isa) << " row " << t;
      }
    }
  }
}

TEST(MatMulTest, NoTokensIsNothing) {
  Rig rig(best_isa(), 2);
  MatMul none;
  none.weight = {nullptr, DType::kF32, 5, 7};
  rig.ops->matmul(none, *rig.stream);
}

TEST(BatchedMatMulTest, EveryHeadIsItsOwnProduct) {
  const int64_t tokens = 5, heads = 3, outputs = 21, width = 50;
  const int64_t x_head = width + 4, x_row = heads * x_head + 1, out_head = outputs + 2;
  const int64_t out_row = heads * out_head + 3;
  const std::vector<float> x = random_floats(tokens * x_row, 4);
  const std::vector<float> weight = random_floats(heads * outputs * width, 5);
  std::vector<float> want(static_cast<size_t>(tokens * out_row), 7.0f);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t n = 0; n < outputs; ++n) {
        want[t * out_row + h * out_head + n] =
            plain_dot(&x[t * x_row + h * x_head], &weight[(h * outputs + n) * width], width);
      }
    }
  }
  for (const Isa isa : available_isas()) {
    Rig rig(isa, 2);
    std::vector<float> out(want.size(), 7.0f);
    rig.ops->batched_matmul({.x = x.data(),
                             .weight = {weight.data(), DType::kF32, heads * outputs, width},
                             .out = out.data(),
                             .num_tokens = tokens,
                             .num_heads = heads,
                             .x_stride = x_row,
                             .x_head_stride = x_head,
                             .out_stride = out_row,
                             .out_head_stride = out_head},
                            *rig.stream);
    EXPECT_EQ(difference(out, want), "") << to_string(isa);
  }
}

// Experts with random weights, rows shared among them, results scattered by offset.
struct Experts {
  Experts(int64_t hidden, int64_t inner, std::vector<int32_t> pairs_per_group, bool is_bf16)
      : hidden_size(hidden), width(inner), bf16(is_bf16) {
    uint32_t seed = 10;
    group_begin.push_back(0);
    for (const int32_t pairs : pairs_per_group) {
      group_begin.push_back(group_begin.back() + pairs);
      for (int m = 0; m < 3; ++m) {
        matrices.push_back(random_floats(hidden * inner, seed++));
        narrow.push_back(to_bf16(matrices.back()));
        if (bf16) matrices.back() = from_bf16(narrow.back());
      }
    }
    const int32_t num_pairs = group_begin.back();
    x = random_floats(kRows * x_stride(), 9);
    for (int32_t p = 0; p < num_pairs; ++p) {
      pair_row.push_back(p * 5 % kRows);
      out_offset.push_back(int64_t{num_pairs - 1 - p} * (hidden_size + 3));
    }
  }
  int64_t x_stride() const { return hidden_size + 5; }
  MatrixView view(size_t i, int64_t rows, int64_t cols) const {
    const void* data = bf16 ? static_cast<const void*>(narrow[i].data()) : matrices[i].data();
    return {data, bf16 ? DType::kBF16 : DType::kF32, rows, cols};
  }
  // Results in f32 or bf16.
  template <class Out = float>
  std::vector<Out> run(Rig& rig) const {
    const size_t groups = group_begin.size() - 1;
    std::vector<ExpertWeights> experts;
    for (size_t g = 0; g < groups; ++g) {
      experts.push_back({view(3 * g, width, hidden_size), view(3 * g + 1, width, hidden_size),
                         view(3 * g + 2, hidden_size, width)});
    }
    std::vector<float> scratch(pair_row.size() * static_cast<size_t>(2 * width));
    GroupedFfn call{.x = x.data(),
                    .experts = experts.data(),
                    .group_begin = group_begin.data(),
                    .pair_row = pair_row.data(),
                    .out_offset = out_offset.data(),
                    .hidden = scratch.data(),
                    .weight_dtype = bf16 ? DType::kBF16 : DType::kF32,
                    .num_pairs = static_cast<int64_t>(pair_row.size()),
                    .num_groups = static_cast<int32_t>(groups),
                    .hidden_size = hidden_size,
                    .width = width,
                    .x_stride = x_stride()};
    auto out = unwritten_results<Out>(call, pair_row.size() * static_cast<size_t>(hidden_size + 3));
    rig.ops->grouped_ffn(call, *rig.stream);
    return out;
  }
  std::vector<float> want() const {
    std::vector<float> out(pair_row.size() * static_cast<size_t>(hidden_size + 3), 7.0f);
    for (size_t g = 0; g + 1 < group_begin.size(); ++g) {
      for (int32_t p = group_begin[g]; p < group_begin[g + 1]; ++p) {
        const float* row = &x[pair_row[p] * x_stride()];
        std::vector<float> inner(static_cast<size_t>(width));
        for (int64_t i = 0; i < width; ++i) {
          const float gate = plain_dot(row, &matrices[3 * g][i * hidden_size], hidden_size);
          const float up = plain_dot(row, &matrices[3 * g + 1][i * hidden_size], hidden_size);
          inner[i] = gate / (1.0f + kernel_exp(-gate)) * up;
        }
        for (int64_t n = 0; n < hidden_size; ++n) {
          out[out_offset[p] + n] = plain_dot(inner.data(), &matrices[3 * g + 2][n * width], width);
        }
      }
    }
    return out;
  }
  static constexpr int32_t kRows = 13;
  int64_t hidden_size, width;
  bool bf16;
  std::vector<std::vector<float>> matrices;
  std::vector<std::vector<uint16_t>> narrow;
  std::vector<float> x;
  std::vector<int32_t> group_begin, pair_row;
  std::vector<int64_t> out_offset;
};

TEST(GroupedFfnTest, IsThreeDotsAndSiluBitForBitOnEverySet) {
  for (const bool bf16 : {false, true}) {
    for (const auto& [hidden, inner] :
         {std::pair<int64_t, int64_t>{33, 18}, {64, 17}, {192, 128}}) {
      const Experts experts(hidden, inner, {1, 0, 3, 9, 2}, bf16);
      const std::vector<float> want = experts.want();
      for (const Isa isa : available_isas()) {
        Rig rig(isa);
        EXPECT_EQ(difference(experts.run(rig), want), "") << to_string(isa) << " H " << hidden;
      }
    }
  }
}

// Groups of more rows than a block of sums has, and widths with a partial block.
TEST(GroupedFfnTest, ResultsInBf16AreTheSumsRoundedOnce) {
  for (const bool bf16 : {false, true}) {
    for (const int64_t hidden : {33, 192}) {
      const Experts experts(hidden, 18, {1, 0, 70, 2}, bf16);
      const std::vector<float> want = from_bf16(to_bf16(experts.want()));
      for (const Isa isa : available_isas()) {
        Rig rig(isa, 2);
        EXPECT_EQ(difference(from_bf16(experts.run<uint16_t>(rig)), want), "")
            << to_string(isa) << " H " << hidden;
      }
    }
  }
}

TEST(GroupedFfnTest, ThreadsDoNotChangeABit) {
  const Experts experts(1056, 400, {2, 1, 0, 5}, true);
  const std::vector<float> want = experts.want();
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2, 3, 5}) {
      Rig rig(isa, threads);
      EXPECT_EQ(difference(experts.run(rig), want), "") << to_string(isa) << " threads " << threads;
    }
  }
}

TEST(GroupedFfnTest, NoPairsIsNothing) {
  Rig rig(best_isa(), 2);
  rig.ops->grouped_ffn({}, *rig.stream);
  const Experts experts(16, 16, {0, 0}, false);
  EXPECT_TRUE(experts.run(rig).empty());
}

}  // namespace
}  // namespace colibri
