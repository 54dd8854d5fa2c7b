#include "base/deadline.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

TEST(DeadlineTest, ZeroHasExpiredAtOnce) {
  const Deadline deadline = Deadline::after_ms(0);
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.remaining_ms(), 0);
  EXPECT_FALSE(deadline.is_never());
}

TEST(DeadlineTest, AnHourIsAhead) {
  const Deadline deadline = Deadline::after_ms(3'600'000);
  EXPECT_FALSE(deadline.expired());
  EXPECT_GT(deadline.remaining_ms(), 3'000'000);
  EXPECT_LE(deadline.remaining_ms(), 3'600'000);
  EXPECT_GE(deadline.waited_ms(), 0);
}

TEST(DeadlineTest, PastDeadlineNeverHasNegativeTimeLeft) {
  const Deadline deadline = Deadline::after_ms(-5000);
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.remaining_ms(), 0);
}

TEST(DeadlineTest, NeverNeverExpires) {
  const Deadline deadline = Deadline::never();
  EXPECT_TRUE(deadline.is_never());
  EXPECT_FALSE(deadline.expired());
  EXPECT_GT(deadline.remaining_ms(), int64_t{1} << 39);
}

}  // namespace
}  // namespace colibri
