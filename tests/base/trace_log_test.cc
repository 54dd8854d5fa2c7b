#include "base/trace_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

using std::chrono::microseconds;

class TraceLogTest : public testing::Test {
 protected:
  TraceLogTest() { log_.start({.origin = origin_, .error_ns = 7}); }
  nlohmann::json written() {
    log_.write(path_);
    std::ifstream file(path_);
    return nlohmann::json::parse(file);
  }

  TempDir dir_;
  std::string path_ = dir_ / "t.json";
  TraceLog::Clock::time_point origin_ = TraceLog::Clock::now();
  TraceLog log_{3};
};

TEST_F(TraceLogTest, SpanIsAChromeEventInMicroseconds) {
  log_.add({.name = "wait",
            .start = origin_ + microseconds(5),
            .end = origin_ + microseconds(7),
            .track = TraceTrack::kExchange,
            .layer = 2,
            .rows = 4});
  const auto trace = written();
  const nlohmann::json span = {{"name", "wait"},
                               {"ph", "X"},
                               {"pid", 3},
                               {"tid", 1},
                               {"ts", 5.0},
                               {"dur", 2.0},
                               {"args", {{"layer", 2}, {"rows", 4}}}};
  EXPECT_EQ(trace["traceEvents"][0], span);
  EXPECT_EQ(trace["otherData"]["clock_error_ns"], 7);
}

TEST_F(TraceLogTest, SpansAreOfTheLayerThatIsSet) {
  log_.set_layer(1);
  TraceSpan(&log_, log_.name_of("made " + std::string("up")));
  log_.set_layer(-1);
  TraceSpan(&log_, "outside");
  const auto events = written()["traceEvents"];
  EXPECT_EQ(events[0]["name"], "made up");
  EXPECT_EQ(events[0]["args"]["layer"], 1);
  EXPECT_TRUE(events[1]["args"].empty());
}

TEST_F(TraceLogTest, NoLogTakesNothing) { TraceSpan(nullptr, nullptr); }

TEST_F(TraceLogTest, WrittenSpansAreForgotten) {
  TraceSpan(&log_, "a");
  written();
  EXPECT_EQ(log_.num_spans(), 0u);
}

TEST_F(TraceLogTest, PlaceThatCannotBeWrittenIsNamed) {
  EXPECT_ERROR(log_.write("nothing/here"), kEnvironment, "nothing/here");
}

}  // namespace
}  // namespace colibri
