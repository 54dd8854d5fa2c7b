#include "launch/scaling_points.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace colibri {
namespace {

std::string report(const std::string& ms, const std::string& predicted, int batch = 4) {
  return R"({"facts": {"model": "demo", "placement": "auto", "transport": "mpi",
    "routing": "model", "weights": "q4", "ranks": 2, "threads_per_rank": 1},
    "results": [{"kind": "decode", "tokens": 64, "batch": )" +
         std::to_string(batch) + R"(, "tokens_per_s": 100, "tokens_per_s_deviation": 1,
    "ms_per_step": )" +
         ms + (predicted.empty() ? "" : R"(, "predicted_ms_per_step": )" + predicted) + "}]}";
}

ScalingPoint point(const std::string& ms, const std::string& predicted, int batch = 4) {
  return parse_points(report(ms, predicted, batch), "test").at(0);
}

TEST(ScalingPoints, APredictionIsHeldAgainstItsMeasurement) {
  EXPECT_NEAR(*point("2.0", "2.5").error(), 0.25, 1e-12);
  EXPECT_FALSE(point("2.0", "").error().has_value());
  EXPECT_NE(points_table({point("2.0", "2.5")}).find("+25.0 %"), std::string::npos);
}

TEST(ScalingPoints, RoundsOfOneTestAreOnePointOfMedians) {
  const std::vector<ScalingPoint> merged =
      merge_rounds({point("2", "3"), point("7", "7", 16), point("9", "4"), point("3", "5")});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].num_rounds, 3);
  EXPECT_EQ(merged[0].ms_per_step, 3);
  EXPECT_EQ(*merged[0].predicted_ms_per_step, 4);
  EXPECT_EQ(merged[1].batch, 16);
  EXPECT_EQ(merged[1].ms_per_step, 7);
}

TEST(ScalingPoints, ARoundWithoutPredictionLeavesNone) {
  EXPECT_FALSE(merge_rounds({point("2", "3"), point("2", "")})[0].error().has_value());
}

TEST(ScalingPoints, WhatIsNoReportIsNamed) {
  for (const std::string text : {"[", "{}", R"({"facts": {}, "results": 3})"}) {
    EXPECT_THROW(parse_points(text, "test"), Error) << text;
  }
  try {
    point("-1", "2");
    ADD_FAILURE() << "a negative time passed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ms_per_step"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace colibri
