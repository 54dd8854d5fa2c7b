#include "coordinator/return_capacity.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace colibri
