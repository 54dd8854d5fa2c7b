#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace colibri {
namespace {

TEST(FormatBytesTest, ThreeDigitsAndAUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 KB");
  EXPECT_EQ(format_bytes(9995), "10.0 KB");
  EXPECT_EQ(format_bytes(99'950), "100 KB");
  EXPECT_EQ(format_bytes(999'499), "999 KB");
  EXPECT_EQ(format_bytes(999'500), "1.00 MB");
  EXPECT_EQ(format_bytes(1'234'000'000), "1.23 GB");
  EXPECT_EQ(format_bytes(INT64_MAX), "9.22 EB");
}

TEST(FormatSecondsTest, OneUnitAndFewDigits) {
  EXPECT_EQ(format_seconds(0), "0.0 s");
  EXPECT_EQ(format_seconds(4.24), "4.2 s");
  EXPECT_EQ(format_seconds(9.96), "10 s");
  EXPECT_EQ(format_seconds(119), "119 s");
  EXPECT_EQ(format_seconds(120), "2 min");
  EXPECT_EQ(format_seconds(7200), "2 h");
}

TEST(FormatSecondsTest, ATimeThatIsNoneIsUnknown) {
  EXPECT_EQ(format_seconds(-1), "unknown");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "unknown");
}

}  // namespace
}  // namespace colibri
