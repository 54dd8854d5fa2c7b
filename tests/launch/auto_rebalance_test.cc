#include "launch/auto_rebalance.h"

#include <gtest/gtest.h>

#include "launch/rebalance_option.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

TEST(AutoRebalance, TheOptionIsOffOrANumberOfSteps) {
  EXPECT_EQ(rebalance_steps("off"), 0);
  EXPECT_EQ(rebalance_steps("every=500"), 500);
  EXPECT_ERROR(rebalance_steps("every=0"), kInput, "every=0");
  EXPECT_ERROR(rebalance_steps("every=5x"), kInput, "want off, or every=N");
  EXPECT_ERROR(rebalance_steps("500"), kInput, "--rebalance is '500'");
}

TEST(AutoRebalance, MovesArePaidForTwiceOver) {
  // 10 experts of 1 MB at 1 GB/s: 10 ms. 100 steps save 100 times the gain.
  RebalanceOffer offer{.gain_us = 201,
                       .num_steps = 100,
                       .num_moves = 10,
                       .expert_bytes = 1'000'000,
                       .read_bytes_per_s = 1e9};
  EXPECT_DOUBLE_EQ(offer.cost_us(), 10'000);
  EXPECT_TRUE(offer.is_worth_it());
  offer.gain_us = 199;
  EXPECT_FALSE(offer.is_worth_it());
}

TEST(AutoRebalance, APlanWithoutMovesIsNoOffer) {
  EXPECT_FALSE((RebalanceOffer{.gain_us = 1e9, .num_steps = 1000}).is_worth_it());
}

}  // namespace
}  // namespace colibri
