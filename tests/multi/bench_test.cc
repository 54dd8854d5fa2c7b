// `colibri bench` as real processes.

#include <gtest/gtest.h>

#include "tests/multi/program.h"

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
