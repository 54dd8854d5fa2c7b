#include "coordinator/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/error.h"

namespace colibri {
namespace {

SamplingParams drawing() {
  SamplingParams params;
  params.greedy = false;
  return params;
}

int32_t sample_at(const std::vector<float>& logits, const SamplingParams& params,
                  uint64_t position) {
  const auto vocab_size = static_cast<int64_t>(logits.size());
  return sample(logits, token_draw(params, {.position = position}, vocab_size));
}

// How often each id comes in `n` draws at successive positions.
std::map<int32_t, int> draw(const std::vector<float>& logits, const SamplingParams& params, int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sample_at(logits, params, static_cast<uint64_t>(i))];
  return counts;
}

TEST(SamplerTest, GreedyTakesTheLowerIdAmongEquals) {
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3, 2}, {}), 1);
}

TEST(SamplerTest, NotFiniteLogitIsAnErrorThatNamesTheToken) {
  const std::vector<float> logits = {0, std::numeric_limits<float>::quiet_NaN()};
  try {
    sample(logits, {});
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

TEST(SamplerTest, WithoutTopKAllTokensMayBeDrawn) {
  SamplingParams params = drawing();
  EXPECT_EQ(token_draw(params, {}, 1000).top_k, 1000);
  params.top_k = 20;
  EXPECT_EQ(token_draw(params, {}, 1000).top_k, 20);
  EXPECT_EQ(token_draw(params, {}, 10).top_k, 10);
  params.greedy = true;
  EXPECT_EQ(token_draw(params, {}, 1000).top_k, 0);
}

TEST(SamplerTest, DrawsTellApartSeedsPlacesAndChoices) {
  SamplingParams params = drawing();
  params.seed = 7;
  EXPECT_EQ(token_draw(params, {.choice_idx = 1, .position = 12}, 10).unit, random_unit(7, 1, 12));
}

// Computed by hand: weights 1, e^-1, e^-2, added from the most likely on.
TEST(SamplerTest, TheDrawWalksFromTheMostLikelyTokenOn) {
  const std::vector<float> logits = {1, 3, 2};
  const double total = 1 + std::exp(-1.0) + std::exp(-2.0);
  const auto at = [&](double unit) { return sample(logits, {.unit = unit, .top_k = 3}); };
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(1 / total - 1e-9), 1);
  EXPECT_EQ(at(1 / total + 1e-9), 2);
  EXPECT_EQ(at((1 + std::exp(-1.0)) / total + 1e-9), 0);
}

}  // namespace
}  // namespace colibri
