#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

struct Picked {
  std::vector<int32_t> cpu, cuda;
};

Picked pick(const std::vector<float>& logits, int64_t rows, int64_t vocabulary, int64_t stride,
            const std::vector<TokenDraw>& draws = {}) {
  CudaRig rig;
  PickTokens op{
      .logits = logits.data(), .num_rows = rows, .vocabulary = vocabulary, .stride = stride};
  Picked picked;
  picked.cpu.resize(static_cast<size_t>(rows));
  op.ids = picked.cpu.data();
  if (!draws.empty()) op.draws = draws.data();
  rig.cpu->pick_tokens(op, *rig.cpu_stream);
  DeviceArray<float> device_logits(rig, logits);
  DeviceArray<TokenDraw> device_draws(rig, draws);
  DeviceArray<int32_t> ids(rig, picked.cpu.size());
  op.logits = device_logits.data();
  if (!draws.empty()) op.draws = device_draws.data();
  op.ids = ids.data();
  rig.cuda->pick_tokens(op, *rig.stream);
  picked.cuda = ids.host();
  return picked;
}

TEST(CudaPickTokens, PicksTheCpusTokenForEveryVocabulary) {
  for (const int64_t vocabulary : {1, 2, 31, 33, 2048, 2049, 20000}) {
    for (const int64_t stride : {vocabulary, vocabulary + 3}) {
      const Picked picked = pick(random_floats(3 * stride, 1), 3, vocabulary, stride);
      EXPECT_EQ(picked.cuda, picked.cpu) << vocabulary;
    }
  }
  EXPECT_TRUE(pick({}, 0, 8, 8).cuda.empty());
}

TEST(CudaPickTokens, TakesTheLowerIdAmongEquals) {
  std::vector<float> logits(3000, -1.0f);
  logits[2999] = logits[1777] = logits[641] = 2.0f;
  EXPECT_EQ(pick(logits, 1, 3000, 3000).cuda[0], 641);
}

TEST(CudaPickTokens, AcceptsRowsOfNegativeNumbersOnly) {
  std::vector<float> logits(100, -1e30f);
  logits[63] = -1e29f;
  EXPECT_EQ(pick(logits, 1, 100, 100).cuda[0], 63);
}

TEST(CudaPickTokens, MarksRowsThatAreNotFinite) {
  std::vector<float> logits = random_floats(4 * 700, 2);
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  logits[2 * 700 + 699] = std::numeric_limits<float>::infinity();
  logits[3 * 700] = -std::numeric_limits<float>::infinity();
  const Picked picked = pick(logits, 4, 700, 700);
  EXPECT_EQ(picked.cuda, picked.cpu);
  EXPECT_EQ(picked.cuda[0], -1);
  EXPECT_GE(picked.cuda[1], 0);
  EXPECT_EQ(picked.cuda[2], -1);
  EXPECT_EQ(picked.cuda[3], -1);
}

// Logits of a step: most far below the best; some equal.
std::vector<float> likely_logits(int64_t rows, int64_t vocabulary) {
  std::vector<float> logits = random_floats(rows * vocabulary, 9);
  for (float& x : logits) x = static_cast<float>(static_cast<int>(x * 300)) / 20.0f;
  return logits;
}

TEST(CudaPickTokens, DrawsTheCpusTokens) {
  std::vector<TokenDraw> draws;
  for (int i = 0; i < 24; ++i) {
    draws.push_back({.unit = i / 24.0,
                     .top_k = i % 3 == 0   ? 20
                              : i % 3 == 1 ? 1 + i
                                           : 0,
                     .temperature = i % 2 == 0 ? 0.6f : 1.7f,
                     .top_p = i % 4 < 2 ? 0.95f : 1.0f,
                     .min_p = i % 5 == 0 ? 0.1f : 0.0f});
  }
  const auto rows = static_cast<int64_t>(draws.size());
  for (const int64_t vocabulary : {1, 7, 600, 3001}) {
    const Picked picked =
        pick(likely_logits(rows, vocabulary), rows, vocabulary, vocabulary, draws);
    EXPECT_EQ(picked.cuda, picked.cpu) << vocabulary;
  }
}

TEST(CudaPickTokens, DrawsAmongAsManyTokensAsItHolds) {
  const std::vector<TokenDraw> draws = {{.unit = 0.999, .top_k = kMaxDrawnTopK, .temperature = 50},
                                        {.unit = 0.5, .top_k = kMaxDrawnTopK, .temperature = 50}};
  const Picked picked = pick(likely_logits(2, 1000), 2, 1000, 1000, draws);
  EXPECT_EQ(picked.cuda, picked.cpu);
}

TEST(CudaPickTokens, MarksDrawnRowsThatAreNotFinite) {
  std::vector<float> logits = random_floats(50, 2);
  logits[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(pick(logits, 1, 50, 50, {{.unit = 0.5, .top_k = 5}}).cuda[0], -1);
}

}  // namespace
}  // namespace colibri
