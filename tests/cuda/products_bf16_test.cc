#include <gtest/gtest.h>

#include "tests/cuda/products_rig.h"

namespace colibri {
namespace {

// Products of bf16 are exact in f32; what is left is the rounding of f32 sums.
constexpr double kSumBound = 1e-6;
// A hidden value whose sum differs in its last bit may round to the next bf16.
constexpr double kHiddenBound = 5e-4;

double error(const ProductCase& c) {
  return relative_rms(cuda_matmul(c, Rows::kBf16), exact_matmul(c));
}
double error(const FfnCase& c) { return relative_rms(cuda_ffn(c, Rows::kBf16), exact_ffn(c)); }

TEST(CudaBf16, MatMulIsF32ArithmeticForEveryWidth) {
  for (const int64_t width : {1, 7, 8, 31, 32, 40, 64, 72, 100, 448, 520}) {
    EXPECT_LT(error({.dtype = DType::kBF16, .tokens = 3, .outputs = 20, .width = width}), kSumBound)
        << "width " << width;
  }
}

TEST(CudaBf16, MatMulIsF32ArithmeticForEveryNumberOfOutputs) {
  for (const int64_t outputs : {1, 15, 17, 63, 65, 200}) {
    for (const int64_t tokens : {2, 70}) {
      EXPECT_LT(error({.dtype = DType::kBF16, .tokens = tokens, .outputs = outputs, .width = 40}),
                kSumBound)
          << outputs << " outputs, " << tokens << " rows";
    }
  }
}

TEST(CudaBf16, MatMulTakesStrideAndBias) {
  for (const int64_t tokens : {0, 5, 66}) {
    const ProductCase c{.dtype = DType::kBF16,
                        .tokens = tokens,
                        .outputs = 24,
                        .width = 48,
                        .out_padding = 3,
                        .has_bias = true};
    EXPECT_LT(error(c), kSumBound) << tokens << " rows";
  }
}

// The first `count` numbers.
std::vector<float> head(const std::vector<float>& values, int64_t count) {
  return {values.begin(), values.begin() + count};
}
std::vector<float> tail(const std::vector<float>& values, int64_t count) {
  return {values.end() - count, values.end()};
}

TEST(CudaBf16, ARowsBitsDoNotDependOnTheNumberOfRows) {
  for (const int64_t width : {200, 203}) {
    ProductCase c{.dtype = DType::kBF16, .tokens = 130, .outputs = 72, .width = width};
    const auto all = cuda_matmul(c, Rows::kBf16);
    for (const int64_t tokens : {1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129}) {
      c.tokens = tokens;
      EXPECT_EQ(difference(cuda_matmul(c, Rows::kBf16), head(all, tokens * c.outputs)), "")
          << tokens << " rows, width " << width;
    }
  }
}

TEST(CudaBf16, FeedForwardIsF32ArithmeticForEveryGrouping) {
  const std::vector<int32_t> groupings[] = {{1}, {0}, {3, 0, 1, 0}, {0, 65, 2}, {129}};
  for (const auto& rows : groupings) {
    const FfnCase c{.dtype = DType::kBF16,
                    .hidden_size = 72,
                    .width = 40,
                    .group_rows = rows,
                    .unknown_pairs = 9};
    EXPECT_LT(error(c), kHiddenBound) << rows.size() << " groups, first of " << rows[0];
  }
}

TEST(CudaBf16, FeedForwardIsF32ArithmeticForEveryWidth) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {15, 9}, {64, 33}, {136, 100}, {264, 72}};
  for (const auto& [hidden_size, width] : sizes) {
    for (const int32_t rows : {2, 66}) {
      const FfnCase c{.dtype = DType::kBF16,
                      .hidden_size = hidden_size,
                      .width = width,
                      .group_rows = {rows, 1}};
      EXPECT_LT(error(c), kHiddenBound) << hidden_size << ", " << width << ", " << rows << " rows";
    }
  }
}

// Few and many rows, odd sizes, and outputs that end inside sixteen.
TEST(CudaBf16, ResultsInBf16AreTheSumsRoundedOnce) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {15, 9}, {72, 40}, {138, 100}};
  for (const auto& [hidden_size, width] : sizes) {
    for (const int32_t rows : {1, 9, 66}) {
      FfnCase c{.dtype = DType::kBF16,
                .hidden_size = hidden_size,
                .width = width,
                .group_rows = {rows, 0, 2}};
      const auto want = rounded(cuda_ffn(c, Rows::kBf16));
      c.bf16_results = true;
      EXPECT_EQ(difference(cuda_ffn(c, Rows::kBf16), want), "")
          << hidden_size << ", " << width << ", " << rows << " rows";
    }
  }
}

TEST(CudaBf16, APairsBitsDoNotDependOnTheNumberOfPairs) {
  FfnCase c{.dtype = DType::kBF16, .hidden_size = 72, .width = 104, .group_rows = {130}};
  const auto all = cuda_ffn(c, Rows::kBf16);
  for (const int32_t pairs : {1, 8, 17, 64, 65, 128, 129}) {
    c.group_rows = {pairs};
    EXPECT_EQ(difference(cuda_ffn(c, Rows::kBf16), tail(all, pairs * c.hidden_size)), "")
        << pairs << " pairs";
  }
}

}  // namespace
}  // namespace colibri
