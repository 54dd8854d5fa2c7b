#include <gtest/gtest.h>

#include "tests/cuda/products_rig.h"

namespace colibri {
namespace {

std::string compare(const ProductCase& c) {
  return difference(cuda_matmul(c, Rows::kFloat), cpu_matmul(c, Rows::kFloat));
}
std::string compare(const FfnCase& c) {
  return difference(cuda_ffn(c, Rows::kFloat), cpu_ffn(c, Rows::kFloat));
}

class CudaDot : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Weights, CudaDot, testing::Values(DType::kF32, DType::kBF16));

TEST_P(CudaDot, MatMulHasTheCpusBitsForEveryWidth) {
  for (const int64_t width : {1, 7, 15, 16, 17, 31, 48, 64, 65, 100, 212}) {
    EXPECT_EQ(compare({.dtype = GetParam(), .tokens = 3, .outputs = 20, .width = width}), "")
        << "width " << width;
  }
}

// More stages than buffers, whole and partial ones, both ways of the kernel.
TEST_P(CudaDot, MatMulHasTheCpusBitsForLongRows) {
  for (const int64_t width : {512, 1032, 2568}) {
    for (const int64_t tokens : {2, 13, 17}) {
      EXPECT_EQ(compare({.dtype = GetParam(), .tokens = tokens, .outputs = 3, .width = width}), "")
          << "width " << width << ", " << tokens << " rows";
    }
  }
}

TEST_P(CudaDot, MatMulHasTheCpusBitsForEveryNumberOfOutputs) {
  for (const int64_t outputs : {1, 8, 9, 16, 63, 64, 65, 200, 2050}) {
    EXPECT_EQ(compare({.dtype = GetParam(), .tokens = 2, .outputs = outputs, .width = 32}), "")
        << outputs << " outputs";
  }
}

TEST_P(CudaDot, MatMulHasTheCpusBitsForEveryNumberOfRows) {
  for (const int64_t tokens : {0, 1, 2, 3, 5, 7, 8, 9, 16, 29}) {
    EXPECT_EQ(compare({.dtype = GetParam(), .tokens = tokens, .outputs = 18, .width = 36}), "")
        << tokens << " rows";
  }
}

TEST_P(CudaDot, MatMulTakesStridesAndBias) {
  for (const int64_t padding : {1, 4}) {
    const ProductCase c{.dtype = GetParam(),
                        .tokens = 3,
                        .outputs = 10,
                        .width = 40,
                        .x_padding = padding,
                        .out_padding = 3,
                        .has_bias = true};
    EXPECT_EQ(compare(c), "") << "padding " << padding;
  }
}

TEST_P(CudaDot, BatchedMatMulHasTheCpusBits) {
  const DType dtype = GetParam();
  const BatchedCase cases[] = {
      {.dtype = dtype, .tokens = 3, .heads = 3, .outputs = 20, .width = 24},
      {.dtype = dtype, .tokens = 9, .heads = 2, .outputs = 5, .width = 19, .x_padding = 2},
      {.dtype = dtype, .tokens = 0, .heads = 2, .outputs = 5, .width = 16}};
  for (const BatchedCase& c : cases) EXPECT_EQ(compare_batched(c), "") << c.heads << " heads";
}

TEST_P(CudaDot, FeedForwardHasTheCpusBitsForEveryGrouping) {
  const std::vector<int32_t> groupings[] = {{1}, {0}, {3, 0, 1, 0}, {0, 9, 0}, {8, 1, 16}, {25}};
  for (const auto& rows : groupings) {
    const FfnCase c{.dtype = GetParam(), .hidden_size = 36, .width = 20, .group_rows = rows};
    EXPECT_EQ(compare(c), "") << rows.size() << " groups, first of " << rows[0];
  }
}

TEST_P(CudaDot, FeedForwardHasTheCpusBitsForEveryWidth) {
  for (const int64_t width : {1, 15, 33, 64, 70}) {
    const FfnCase c{.dtype = GetParam(),
                    .hidden_size = 2 * width + 1,
                    .width = width,
                    .group_rows = {2, 1},
                    .x_padding = width % 2};
    EXPECT_EQ(compare(c), "") << "width " << width;
  }
}

TEST_P(CudaDot, FeedForwardRoundsItsResultsAsTheCpu) {
  for (const int64_t hidden_size : {1, 15, 16, 33, 138}) {
    const FfnCase c{.dtype = GetParam(),
                    .hidden_size = hidden_size,
                    .width = 20,
                    .group_rows = {2, 0, 9},
                    .bf16_results = true};
    EXPECT_EQ(compare(c), "") << "hidden size " << hidden_size;
  }
}

TEST_P(CudaDot, FeedForwardFindsTheGroupsOfManyExperts) {
  FfnCase c{.dtype = GetParam(), .hidden_size = 16, .width = 16, .unknown_pairs = 30};
  c.group_rows.assign(140, 0);
  c.group_rows[3] = c.group_rows[4] = c.group_rows[127] = c.group_rows[128] = 1;
  c.group_rows[40] = 9;
  c.group_rows[139] = 17;
  EXPECT_EQ(compare(c), "");
}

}  // namespace
}  // namespace colibri
