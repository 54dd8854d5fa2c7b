#include "coordinator/stop_strings.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

TEST(StopStringsTest, TextBeforeTheStopStringComesOutAndTheRestIsDropped) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("abEN"), "ab");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.push("Dxyz"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStringsTest, FalseAlarmIsReleased) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("EN"), "");
  EXPECT_EQ(stops.push("TER"), "ENTER");
}

TEST(StopStringsTest, EarliestOfSeveralWins) {
  StopStrings stops({"yy", "x"});
  EXPECT_EQ(stops.push("axyy"), "a");
}

TEST(StopStringsTest, HeldBackTextComesAtTheEnd) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("aE"), "a");
  EXPECT_EQ(stops.finish(), "E");
}

TEST(StopStringsTest, RepeatedBeginningIsHeldAsLongAsItMayMatch) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.push("aa"), "");
  EXPECT_EQ(stops.push("a"), "a");
  EXPECT_EQ(stops.push("b"), "");
  EXPECT_TRUE(stops.stopped());
}

TEST(StopStringsTest, EmptyStopStringsAreIgnored) {
  StopStrings stops({""});
  EXPECT_EQ(stops.push("text"), "text");
}

}  // namespace
}  // namespace colibri
