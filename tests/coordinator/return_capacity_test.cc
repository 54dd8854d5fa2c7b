#include "coordinator/return_capacity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace colibri {
namespace {

TEST(ReturnCapacityTest, FewTokensAlwaysFit) {
  ReturnCapacity capacity(1, 8);
  for (int i = 0; i < 1000; ++i) capacity.observe(0, 4, 1);
  EXPECT_EQ(capacity.of(0, 4), 32);
}

TEST(ReturnCapacityTest, BeginsWithRoomForAll) { EXPECT_EQ(ReturnCapacity(1, 8).of(0, 64), 512); }

TEST(ReturnCapacityTest, IsLoweredToWhatWasSeenAndHalfAsMuchAgain) {
  ReturnCapacity capacity(1, 8);
  for (int i = 0; i < ReturnCapacity::kPatience; ++i) capacity.observe(0, 64, 128);
  // 128 of 512 are 8 of 32 shares; 8 + 4 + 1, made even.
  EXPECT_EQ(capacity.of(0, 64), 14 * 512 / 32);
}

TEST(ReturnCapacityTest, AStepThatDidNotFitRaisesItAtOnce) {
  ReturnCapacity capacity(1, 8);
  for (int i = 0; i < ReturnCapacity::kPatience; ++i) capacity.observe(0, 64, 16);
  ASSERT_LT(capacity.of(0, 64), 300);
  capacity.observe(0, 64, 300);
  EXPECT_GE(capacity.of(0, 64), 300);
}

TEST(ReturnCapacityTest, LayersAreApart) {
  ReturnCapacity capacity(2, 8);
  for (int i = 0; i < ReturnCapacity::kPatience; ++i) capacity.observe(0, 64, 16);
  EXPECT_EQ(capacity.of(1, 64), 512);
}

// The most pairs that one of seven ranks gets when 64 tokens choose 8 of 128 experts with
// popularity (rank + 1)^-0.9, experts laid out in shuffled order.
class ZipfLoad {
 public:
  ZipfLoad() {
    std::vector<int> order(kExperts);
    for (int e = 0; e < kExperts; ++e) order[static_cast<size_t>(e)] = e;
    std::shuffle(order.begin(), order.end(), random_);
    for (int e = 0; e < kExperts; ++e) {
      weight_.push_back(std::pow(1 + order[static_cast<size_t>(e)], -0.9));
    }
  }
  int64_t most_pairs(int64_t tokens) {
    std::vector<int64_t> pairs(7, 0);
    for (int64_t t = 0; t < tokens; ++t) {
      for (const int expert : choose()) ++pairs[static_cast<size_t>(expert * 7 / kExperts)];
    }
    return *std::max_element(pairs.begin(), pairs.end());
  }

 private:
  static constexpr int kExperts = 128;
  // Eight different experts: the largest of weight-scaled exponential draws.
  std::vector<int> choose() {
    std::exponential_distribution<double> draw(1);
    std::vector<std::pair<double, int>> keys;
    for (int e = 0; e < kExperts; ++e)
      keys.push_back({draw(random_) / weight_[static_cast<size_t>(e)], e});
    std::partial_sort(keys.begin(), keys.begin() + 8, keys.end());
    std::vector<int> chosen;
    for (int i = 0; i < 8; ++i) chosen.push_back(keys[static_cast<size_t>(i)].second);
    return chosen;
  }

  std::mt19937 random_{5};
  std::vector<double> weight_;
};

TEST(ReturnCapacityTest, FewerThanOneStepInAHundredRunsAgainUnderZipfLoad) {
  ReturnCapacity capacity(1, 8);
  ZipfLoad load;
  constexpr int kSteps = 1000;
  int reruns = 0;
  int64_t returned = 0;
  for (int step = 0; step < kSteps; ++step) {
    const int64_t pairs = load.most_pairs(64);
    if (pairs > capacity.of(0, 64)) ++reruns;
    returned += capacity.of(0, 64);
    capacity.observe(0, 64, pairs);
  }
  EXPECT_LT(reruns, kSteps / 100);
  EXPECT_LT(returned, int64_t{kSteps} * 512 * 3 / 4);  // and it saves a quarter at least
}

}  // namespace
}  // namespace colibri
