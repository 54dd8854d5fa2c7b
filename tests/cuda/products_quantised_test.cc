#include <gtest/gtest.h>

#include "tests/cuda/products_rig.h"

namespace colibri {
namespace {

std::string compare(const ProductCase& c) {
  return difference(cuda_matmul(c, Rows::kQuantised), cpu_matmul(c, Rows::kQuantised));
}
std::string compare(const FfnCase& c) {
  return difference(cuda_ffn(c, Rows::kQuantised), cpu_ffn(c, Rows::kQuantised));
}

class CudaQuantised : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Weights, CudaQuantised, testing::Values(DType::kQ8, DType::kQ4));

// One to thirteen groups: odd ones, whole stages, more stages than buffers, a partial one.
TEST_P(CudaQuantised, MatMulHasTheCpusBitsForEveryWidth) {
  for (const int64_t groups : {1, 2, 3, 4, 5, 8, 13, 28}) {
    EXPECT_EQ(compare({.dtype = GetParam(), .tokens = 3, .outputs = 40, .width = 32 * groups}), "")
        << groups << " groups";
  }
}

TEST_P(CudaQuantised, MatMulHasTheCpusBitsForEveryNumberOfOutputs) {
  for (const int64_t outputs : {1, 15, 16, 17, 33, 112}) {
    EXPECT_EQ(compare({.dtype = GetParam(), .tokens = 2, .outputs = outputs, .width = 64}), "")
        << outputs << " outputs";
  }
}

TEST_P(CudaQuantised, MatMulHasTheCpusBitsForEveryNumberOfRows) {
  for (const int64_t tokens : {0, 1, 2, 7, 8, 9, 17, 63, 64, 65, 130}) {
    EXPECT_EQ(compare({.dtype = GetParam(), .tokens = tokens, .outputs = 20, .width = 128}), "")
        << tokens << " rows";
  }
}

TEST_P(CudaQuantised, MatMulOfManyOutputsHasTheCpusBits) {
  EXPECT_EQ(compare({.dtype = GetParam(), .tokens = 2, .outputs = 8210, .width = 32}), "");
}

TEST_P(CudaQuantised, MatMulTakesStrideAndBias) {
  EXPECT_EQ(compare({.dtype = GetParam(),
                     .tokens = 9,
                     .outputs = 24,
                     .width = 96,
                     .out_padding = 5,
                     .has_bias = true}),
            "");
}

TEST_P(CudaQuantised, BatchedMatMulHasTheCpusBits) {
  const BatchedCase cases[] = {
      {.dtype = GetParam(), .tokens = 3, .heads = 3, .outputs = 16, .width = 64},
      {.dtype = GetParam(), .tokens = 70, .heads = 2, .outputs = 48, .width = 32}};
  for (const BatchedCase& c : cases) EXPECT_EQ(compare_batched(c), "") << c.heads << " heads";
}

TEST_P(CudaQuantised, FeedForwardHasTheCpusBitsForEveryGrouping) {
  const std::vector<int32_t> groupings[] = {{1}, {0}, {3, 0, 1, 0}, {0, 65, 0}, {8, 1, 12}, {130}};
  for (const auto& rows : groupings) {
    const FfnCase c{.dtype = GetParam(), .hidden_size = 96, .width = 64, .group_rows = rows};
    EXPECT_EQ(compare(c), "") << rows.size() << " groups, first of " << rows[0];
  }
}

TEST_P(CudaQuantised, FeedForwardHasTheCpusBitsForEveryWidth) {
  const std::pair<int64_t, int64_t> sizes[] = {{32, 32}, {128, 96}, {160, 128}, {544, 416}};
  for (const auto& [hidden_size, width] : sizes) {
    const FfnCase c{
        .dtype = GetParam(), .hidden_size = hidden_size, .width = width, .group_rows = {2, 1}};
    EXPECT_EQ(compare(c), "") << hidden_size << ", " << width;
  }
}

TEST_P(CudaQuantised, FeedForwardRoundsItsResultsAsTheCpu) {
  for (const int32_t rows : {1, 9, 66}) {
    const FfnCase c{.dtype = GetParam(),
                    .hidden_size = 160,
                    .width = 64,
                    .group_rows = {2, 0, rows},
                    .bf16_results = true};
    EXPECT_EQ(compare(c), "") << rows << " rows";
  }
}

TEST_P(CudaQuantised, FeedForwardFindsTheGroupsOfManyExperts) {
  FfnCase c{.dtype = GetParam(), .hidden_size = 32, .width = 32, .unknown_pairs = 200};
  c.group_rows.assign(40, 0);
  c.group_rows[0] = c.group_rows[31] = c.group_rows[32] = 1;
  c.group_rows[39] = 66;
  EXPECT_EQ(compare(c), "");
}

}  // namespace
}  // namespace colibri
