#include "base/error.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

TEST(ErrorTest, EveryKindHasTheExitCodeOfTheDesign) {
  EXPECT_EQ(exit_code(ErrorKind::kInput), 2);
  EXPECT_EQ(exit_code(ErrorKind::kEnvironment), 3);
  EXPECT_EQ(exit_code(ErrorKind::kUnsupported), 3);
  EXPECT_EQ(exit_code(ErrorKind::kTimeout), 4);
  EXPECT_EQ(exit_code(ErrorKind::kRankLost), 4);
  EXPECT_EQ(exit_code(ErrorKind::kInternal), 70);
}

TEST(ErrorTest, EveryKindHasAName) {
  EXPECT_STREQ(to_string(ErrorKind::kInput), "input");
  EXPECT_STREQ(to_string(ErrorKind::kEnvironment), "environment");
  EXPECT_STREQ(to_string(ErrorKind::kUnsupported), "unsupported");
  EXPECT_STREQ(to_string(ErrorKind::kTimeout), "timeout");
  EXPECT_STREQ(to_string(ErrorKind::kRankLost), "rank lost");
  EXPECT_STREQ(to_string(ErrorKind::kInternal), "internal");
}

TEST(ErrorTest, MessageIsThePartsOneAfterTheOther) {
  EXPECT_ERROR(fail(ErrorKind::kInput, "rank ", 2, " has ", 1.5, " of ", std::string("x")), kInput,
               "rank 2 has 1.5 of x");
}

TEST(ErrorTest, CheckThrowsOnlyWhenItsConditionIsFalse) {
  check(true, "not this");
  EXPECT_ERROR(check(1 > 2, "one is ", 1), kInternal, "internal check failed: one is 1");
}

TEST(ErrorTest, ErrorIsAStandardException) {
  EXPECT_THROW(fail(ErrorKind::kTimeout, "late"), std::runtime_error);
}

}  // namespace
}  // namespace colibri
