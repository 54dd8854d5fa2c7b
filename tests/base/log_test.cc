#include "base/log.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

TEST(LogTest, LineHoldsRankLevelAndText) {
  testing::internal::CaptureStderr();
  const Logger logger = make_logger(3, "info");
  logger->warn("slow link");
  logger->flush();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("[rank 3] [warning] slow link\n"), std::string::npos) << text;
}

TEST(LogTest, LowerLevelsAreLeftOut) {
  testing::internal::CaptureStderr();
  const Logger logger = make_logger(0, "error");
  logger->warn("unseen");
  logger->flush();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LogTest, UnknownLevelIsNamed) {
  EXPECT_ERROR(make_logger(0, "loud"), kInput, "--log-level is 'loud', want trace");
  make_logger(0, "off")->error("unseen");
}

TEST(LogTest, NullLoggerDropsEverything) {
  testing::internal::CaptureStderr();
  make_null_logger()->error("unseen");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace colibri
