#include "base/exp.h"

#include <gtest/gtest.h>

#include <limits>

namespace colibri {
namespace {

TEST(ExpTest, IsWithinTwoUnitsInTheLastPlace) {
  for (int i = 0; i < 70000; ++i) {
    const double x = -i * 0.00999;
    const double want = std::exp(x);
    EXPECT_LE(std::abs(exp_of_negative(x) - want),
              2 * std::numeric_limits<double>::epsilon() * want)
        << x;
  }
}

TEST(ExpTest, OfZeroIsOneExactly) { EXPECT_EQ(exp_of_negative(0), 1.0); }

TEST(ExpTest, FarBelowZeroIsZero) {
  EXPECT_EQ(exp_of_negative(-701), 0.0);
  EXPECT_EQ(exp_of_negative(-std::numeric_limits<double>::infinity()), 0.0);
}

TEST(ExpTest, KeepsNotANumber) {
  EXPECT_TRUE(std::isnan(exp_of_negative(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace colibri
