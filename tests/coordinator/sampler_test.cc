#include "coordinator/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/device.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"

namespace colibri {
namespace {

SamplingParams drawing() {
  SamplingParams params;
  params.greedy = false;
  return params;
}

// How often each id comes in `n` draws at successive positions.
std::map<int32_t, int> draw(const std::vector<float>& logits, const SamplingParams& params, int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sample(logits, params, 0, static_cast<uint64_t>(i))];
  return counts;
}

TEST(SamplerTest, GreedyTakesTheLowerIdAmongEquals) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
}

TEST(SamplerTest, NotFiniteLogitIsAnErrorThatNamesTheToken) {
  const std::vector<float> logits = {0, std::numeric_limits<float>::quiet_NaN()};
  try {
    argmax(logits);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("token 1"), std::string::npos);
  }
}

TEST(SamplerTest, DrawsFollowTheProbabilities) {
  const std::vector<float> logits = {std::log(1.0f), std::log(3.0f)};  // 25 % and 75 %
  const auto counts = draw(logits, drawing(), 10000);
  EXPECT_NEAR(counts.at(1), 7500, 200);  // 4.6 standard deviations
}

TEST(SamplerTest, TemperatureSharpens) {
  SamplingParams params = drawing();
  params.temperature = 0.5;  // odds 3 become odds 9
  const auto counts = draw({std::log(1.0f), std::log(3.0f)}, params, 10000);
  EXPECT_NEAR(counts.at(1), 9000, 150);
}

TEST(SamplerTest, TopKKeepsTheKMostLikely) {
  SamplingParams params = drawing();
  params.top_k = 2;
  const auto counts = draw({0, 1, 2, 3}, params, 1000);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.contains(2) && counts.contains(3));
}

TEST(SamplerTest, TopPKeepsTheShortestHeadThatReachesIt) {
  SamplingParams params = drawing();
  params.top_p = 0.7f;  // of 50, 30, 20 %: the first two
  const auto counts = draw({std::log(0.2f), std::log(0.5f), std::log(0.3f)}, params, 1000);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_FALSE(counts.contains(0));
}

TEST(SamplerTest, MinPDropsWhatIsFarLessLikelyThanTheBest) {
  SamplingParams params = drawing();
  params.min_p = 0.5f;  // least 25 %
  const auto counts = draw({std::log(0.2f), std::log(0.5f), std::log(0.3f)}, params, 1000);
  EXPECT_EQ(counts.size(), 2u);
}

TEST(SamplerTest, SameSeedAndPositionDrawTheSame) {
  EXPECT_EQ(random_unit(7, 0, 12), random_unit(7, 0, 12));
  EXPECT_NE(random_unit(7, 0, 12), random_unit(7, 0, 13));
  EXPECT_NE(random_unit(7, 0, 12), random_unit(8, 0, 12));
  EXPECT_NE(random_unit(7, 0, 12), random_unit(7, 1, 12));
}

TEST(SamplerTest, ParametersOutOfRangeAreNamed) {
  SamplingParams params = drawing();
  params.top_p = 0;
  EXPECT_THROW(check_sampling(params), Error);
  params = drawing();
  params.temperature = 0;
  EXPECT_THROW(check_sampling(params), Error);
  params = drawing();
  params.min_p = 1;
  EXPECT_THROW(check_sampling(params), Error);
}

TEST(SamplerTest, TheOperationDrawsTheSameTokens) {
  ThreadPool pool({.num_threads = 1});
  const auto device = make_cpu_device(pool);
  const auto stream = device->make_stream();
  const auto ops = make_cpu_ops(Isa::kPortable);
  std::vector<float> logits;
  for (int i = 0; i < 500; ++i) logits.push_back(static_cast<float>(i * 37 % 101) / 7);
  SamplingParams params = drawing();
  params.top_k = 40;
  params.temperature = 0.6f;
  params.top_p = 0.95f;
  params.min_p = 0.01f;
  for (uint64_t position = 0; position < 200; ++position) {
    const TokenDraw draw{.unit = random_unit(params.seed, 0, position),
                         .top_k = params.top_k,
                         .temperature = params.temperature,
                         .top_p = params.top_p,
                         .min_p = params.min_p};
    int32_t id = -1;
    ops->pick_tokens({.logits = logits.data(),
                      .draws = &draw,
                      .ids = &id,
                      .num_rows = 1,
                      .vocabulary = 500,
                      .stride = 500},
                     *stream);
    EXPECT_EQ(id, sample(logits, params, 0, position)) << position;
  }
}

}  // namespace
}  // namespace colibri
