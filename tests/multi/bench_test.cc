// `colibri bench` as real processes.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/multi/program.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

const Words kShort = {"-p", "24", "-n", "6", "-b", "2", "-r", "2", "--no-probes"};

nlohmann::json bench(const Words& more) {
  const CommandResult result =
      run_command(joined(joined({kProgram, "bench", "--format", "json"}, kShort), more), 60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

TEST(BenchTest, ThreeRanksOfARandomShapeExchangeAndAreWaitedFor) {
  const auto json = bench({"--shape", "demo", "--layers", "2", "--weights", "q4", "--ranks", "3"});
  EXPECT_EQ(json.at("facts").at("ranks"), 3);
  EXPECT_EQ(json.at("facts").at("layers"), 2);
  const auto& results = json.at("results");
  ASSERT_EQ(results.size(), 2u);
  for (const auto& sample : results.at(1).at("samples")) {
    EXPECT_EQ(sample.at("tokens"), 12);
    EXPECT_EQ(sample.at("steps"), 6);
    EXPECT_GT(sample.at("dispatch_bytes"), 0);
    EXPECT_GT(sample.at("compute_us_by_rank").at(2), 0);
  }
}

// Quantised rows: 6 steps, 2 layers, 2 tokens; a row of 192 codes and 6 scales is 216 bytes.
TEST(BenchTest, RowsOfQuantisedExpertsTravelQuantised) {
  const Words shape = {"--shape", "demo", "--layers", "2", "--ranks", "2", "--routing", "uniform"};
  const auto bytes = [&](const char* weights) {
    const auto json = bench(joined(shape, {"--weights", weights}));
    return json.at("results").at(1).at("samples").at(0).at("dispatch_bytes").get<int64_t>();
  };
  EXPECT_EQ(bytes("bf16") - bytes("q8"), 6 * 2 * 2 * (192 * 4 - 216));
}

TEST(BenchTest, RoutesRecordedInOneRunAreReplayedInAnother) {
  const std::string path = testing::TempDir() + "/bench_routes_" + std::to_string(::getpid());
  const Words record = {"--shape", "demo", "--record-routes", path};
  EXPECT_FALSE(bench(record).is_discarded());
  const auto json = bench({"--shape", "demo", "--routing", path});
  EXPECT_EQ(json.at("facts").at("routing"), path);
  std::remove(path.c_str());
}

// [begin, end] of a span in microseconds.
struct Times {
  double begin, end;
};

std::vector<Times> spans_of(const nlohmann::json& trace, const std::string& name, int layer) {
  std::vector<Times> spans;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"], 0) << event;
    if (event["name"] != name || event["args"].value("layer", -1) != layer) continue;
    const double begin = event["ts"];
    spans.push_back({begin, begin + event["dur"].get<double>()});
  }
  return spans;
}

bool lies_in_one(const Times& inner, const std::vector<Times>& outer, double error_us) {
  return std::any_of(outer.begin(), outer.end(), [&](const Times& span) {
    return inner.begin >= span.begin - error_us && inner.end <= span.end + error_us;
  });
}

TEST(BenchTest, WorkersComputeWhileTheCoordinatorsRowsAreAway) {
  const TempDir dir;
  const std::string place = dir / "made/here";
  EXPECT_FALSE(bench({"--shape", "demo", "--ranks", "3", "--trace", place}).is_discarded());
  std::vector<nlohmann::json> traces;
  for (const char* rank : {"0", "1", "2"}) {
    std::ifstream file(place + "/trace.rank" + rank + ".json");
    traces.push_back(nlohmann::json::parse(file));
  }
  EXPECT_EQ(spans_of(traces[0], "step[DECODE bs=2]", -1).size(), 6u);
  for (int layer = 0; layer < 4; ++layer) {
    const auto away = spans_of(traces[0], "rows away", layer);
    const auto layers = spans_of(traces[0], "layer", layer);
    EXPECT_EQ(away.size(), layers.size());
    for (const Times& span : spans_of(traces[0], "wait for ranks", layer)) {
      EXPECT_TRUE(lies_in_one(span, away, 0.002)) << layer;
    }
    for (const int rank : {1, 2}) {
      const auto& trace = traces[static_cast<size_t>(rank)];
      const double error_us = trace["otherData"]["clock_error_ns"].get<double>() / 1000 + 0.002;
      const auto computed = spans_of(trace, "experts", layer);
      EXPECT_FALSE(computed.empty());
      for (const Times& span : computed) {
        EXPECT_TRUE(lies_in_one(span, away, error_us)) << rank << " " << layer;
      }
    }
  }
}

TEST(BenchTest, WrongRoutingAndShapeAreNamed) {
  const CommandResult routing = run_command(
      {kProgram, "bench", "--shape", "demo", "--routing", "zipf:-1", "--no-probes"}, 60);
  EXPECT_EQ(routing.exit_code, 2);
  EXPECT_NE(routing.err.find("zipf:S"), std::string::npos) << routing.err;
  const CommandResult shape = run_command({kProgram, "bench", "--shape", "gpt"}, 60);
  EXPECT_EQ(shape.exit_code, 2);
  EXPECT_NE(shape.err.find("qwen3-30b-a3b"), std::string::npos) << shape.err;
}

}  // namespace
}  // namespace colibri
