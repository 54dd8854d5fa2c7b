#include <gtest/gtest.h>

#include <limits>

#include "base/dtype.h"
#include "tests/cuda/attention_rig.h"

namespace colibri {
namespace {

// The case with f32 and bf16 caches, in order and cut over the context.
void expect_the_cpus_bits(AttentionCase c) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool knows_contexts : {false, true}) {
      c.layout.dtype = dtype;
      c.knows_contexts = knows_contexts;
      EXPECT_EQ(compare_attention(c), "")
          << to_string(dtype) << (knows_contexts ? " in parts" : " in order") << ", " << c.num_heads
          << " heads, key width " << c.layout.key_dim;
    }
  }
}

KvLayout grouped(int64_t kv_heads, int64_t key_dim, int64_t value_dim) {
  return {.num_kv_heads = kv_heads, .key_dim = key_dim, .value_dim = value_dim};
}

TEST(CudaAttention, HasTheCpusBitsForOneTokenAtEveryPlaceOfATile) {
  for (const int32_t position : {0, 1, 15, 16, 62, 63, 64, 127, 128, 200}) {
    expect_the_cpus_bits({grouped(1, 16, 16), 2, {{position, 1}}});
  }
}

TEST(CudaAttention, HasTheCpusBitsForEveryGroupOfHeads) {
  for (const int64_t group : {1, 3, 8, 17}) {
    expect_the_cpus_bits({grouped(2, 32, 32), 2 * group, {{70, 3}, {0, 1}, {130, 2}}});
  }
}

TEST(CudaAttention, HasTheCpusBitsForEveryWidth) {
  for (const int64_t key_dim : {1, 8, 24, 40, 100, 192}) {
    expect_the_cpus_bits({grouped(2, key_dim, key_dim), 4, {{66, 2}}});
  }
  expect_the_cpus_bits({grouped(1, 48, 136), 3, {{66, 2}}});
  expect_the_cpus_bits({grouped(1, 20, 7), 3, {{66, 2}}});
}

TEST(CudaAttention, HasTheCpusBitsForAPrefillOfThreeTilesAndAPart) {
  expect_the_cpus_bits({grouped(1, 32, 16), 3, {{0, 201}}});
}

TEST(CudaAttention, HasTheCpusBitsForManySequences) {
  expect_the_cpus_bits(
      {grouped(1, 16, 16), 1, {{5, 1}, {300, 1}, {64, 1}, {0, 1}, {63, 9}, {1, 2}}});
}

TEST(CudaAttention, HasTheCpusBitsForLatentAttention) {
  const KvLayout latent{.key_dim = 72, .value_dim = 64, .shared_value = true};
  expect_the_cpus_bits({latent, 16, {{129, 2}, {10, 1}}});
  const KvLayout wide{.key_dim = 320, .value_dim = 256, .shared_value = true};
  expect_the_cpus_bits({wide, 9, {{70, 1}}});
}

TEST(CudaAttention, TakesRowsThatAreNotAligned) {
  expect_the_cpus_bits(
      {.layout = grouped(1, 32, 32), .num_heads = 2, .runs = {{100, 3}}, .pad = 3});
}

TEST(CudaAttention, HasTheCpusBitsOverMoreTilesThanAWaveHolds) {
  AttentionCase c{grouped(1, 8, 4), 1, {{520 * kTile + 3, 1}, {3, 1}, {511 * kTile + 63, 1}}};
  c.knows_contexts = true;
  EXPECT_EQ(compare_attention(c), "");
}

// A position that is not finite makes rows NaN that see it, and no others: the last one is seen by
// the last of the run's tokens, though all of them share its tile's reading.
TEST(CudaAttention, NotFiniteNumbersReachOnlyRowsThatSeeThem) {
  AttentionCase c{grouped(2, 16, 16), 4, {{68, 4}}};
  for (const bool knows_contexts : {false, true}) {
    c.knows_contexts = knows_contexts;
    for (const int32_t position : {0, 70, 71}) {
      EXPECT_EQ(compare_spoilt_attention(c, position, std::numeric_limits<float>::infinity()), "");
    }
  }
}

TEST(CudaAttention, WithoutTokensDoesNothing) {
  EXPECT_EQ(compare_attention({grouped(1, 8, 8), 1, {{0, 0}}}), "");
}

}  // namespace
}  // namespace colibri
