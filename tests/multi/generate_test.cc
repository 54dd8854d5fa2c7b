// `colibri generate` as real processes: the same line from every number of ranks and every way to
// start them.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/multi/program.h"

namespace colibri {
namespace {

const Words kRomeo = {"--prompt", "ROMEO:", "--greedy", "--max-tokens", "64", "--ids"};

void expect_romeo(const Words& command, const Words& environment = {}) {
  const CommandResult result = run_command(command, 60, environment);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, romeo_line()) << result.err;
}

class RanksTest : public testing::TestWithParam<int> {};

TEST_P(RanksTest, ProcessesOverMpiPrintTransformersIds) {
  expect_romeo(generate_demo(joined(kRomeo, {"--ranks", std::to_string(GetParam())})));
}

INSTANTIATE_TEST_SUITE_P(Counts, RanksTest, testing::Values(1, 2, 3, 5, 8));

TEST(GenerateTest, ThreadsOverTheLocalTransportPrintTransformersIds) {
  expect_romeo(generate_demo(joined(kRomeo, {"--ranks", "3", "--transport", "local"})));
}

TEST(GenerateTest, BareMpirunPrintsTransformersIds) {
  expect_romeo(under_mpirun(3, generate_demo(kRomeo)), kMpiAsRoot);
}

// Each rank of which mpirun says that it is the first of its host tells of a host. A host without a
// network adapter is refused by name.
TEST(GenerateTest, TwoHostsAreOneMachine) {
  const Words command = {kProgram, "plan", "--machine", "auto", "--show"};
  const CommandResult one = run_command(under_mpirun(2, command), 60, kMpiAsRoot);
  EXPECT_NE(one.out.find("1 node\n"), std::string::npos) << one.out << one.err;
  const Words as_first = joined({"env", "OMPI_COMM_WORLD_LOCAL_RANK=0"}, command);
  const CommandResult two = run_command(under_mpirun(2, as_first), 60, kMpiAsRoot);
  const bool has_adapters = two.out.find("2 nodes\n") != std::string::npos;
  const bool is_refused = two.err.find("has no network adapter") != std::string::npos;
  EXPECT_NE(has_adapters, is_refused) << two.out << two.err;
}

// What rank 0 plans for is not what the ranks compute.
TEST(GenerateTest, RanksOfSeveralHostsPlanTheirPlacement) {
  const Words command =
      joined({"env", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1"},
             generate_demo(joined(kRomeo, {"--placement", "auto"})));
  expect_romeo(under_mpirun(2, command), kMpiAsRoot);
}

TEST(GenerateTest, PlacementSelfExchangeAndUnderscoresChangeNothing) {
  expect_romeo(generate_demo({"--prompt", "ROMEO:", "--greedy", "--max_tokens", "64", "--ids",
                              "--ranks", "3", "--placement", "random:4", "--coordinator-experts",
                              "5", "--self-exchange", "--chunk", "2"}));
}

TEST(GenerateTest, VariableStandsForAFlagAndTheFlagWins) {
  const CommandResult by_variable = run_command(
      generate_demo({"--prompt", "ROMEO:", "--greedy", "--ids"}), 20, {"COLIBRI_MAX_TOKENS=2"});
  EXPECT_EQ(by_variable.out, romeo_line().substr(0, 6) + "\n") << by_variable.err;
  expect_romeo(generate_demo(kRomeo), {"COLIBRI_MAX_TOKENS=2"});
}

TEST(GenerateTest, OnlyTextGoesToStdoutAndTheSummaryToStderr) {
  const CommandResult result = run_command(
      generate_demo({"--prompt", "ROMEO:", "--greedy", "--max-tokens", "8", "--ranks", "3"}), 60);
  EXPECT_EQ(result.out, " O, I will tell her,\nI\n") << result.err;
  for (const char* fact :
       {"starting 3 ranks", "new tokens at", "rank 2:", "waited for", "dispatch"}) {
    EXPECT_NE(result.err.find(fact), std::string::npos) << fact << " in\n" << result.err;
  }
}

TEST(GenerateTest, StopStringEndsTheTextBeforeIt) {
  const CommandResult result = run_command(
      generate_demo({"--prompt", "ROMEO:", "--greedy", "--max-tokens", "64", "--stop", "tell"}),
      20);
  EXPECT_EQ(result.out, " O, I will \n") << result.err;
}

TEST(GenerateTest, JsonHoldsTextIdsReasonAndRanks) {
  const CommandResult result = run_command(
      generate_demo({"--prompt", "ROMEO:", "--greedy", "--max-tokens", "8", "--json"}), 20);
  const auto object = nlohmann::json::parse(result.out);
  EXPECT_EQ(object.at("text"), " O, I will tell her,\nI");
  EXPECT_EQ(object.at("ids").size(), 8u);
  EXPECT_EQ(object.at("prompt_ids"), nlohmann::json::parse("[49, 1038, 36, 46, 25]"));
  EXPECT_EQ(object.at("finish_reason"), "length");
  EXPECT_EQ(object.at("ranks"), 1);
}

TEST(GenerateTest, PromptsOfAFileRunTogetherAndKeepTheirOrder) {
  const std::string path = COLIBRI_BINARY_DIR "/prompts_of_generate_test.jsonl";
  std::ofstream(path) << "{\"prompt\": \"def main(\"}\n\"ROMEO:\"\n{\"prompt_ids\": [49, 1038]}\n";
  const CommandResult result = run_command(
      generate_demo({"--prompts", path, "--greedy", "--max-tokens", "64", "--ids", "--ranks", "2"}),
      60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  EXPECT_EQ(first.substr(0, 12), "87,11,353,11");
  EXPECT_EQ(second + "\n", romeo_line());
  EXPECT_FALSE(third.empty());
}

TEST(GenerateTest, TemperatureZeroIsGreedy) {
  expect_romeo(
      generate_demo({"--prompt", "ROMEO:", "--temperature", "0", "--max-tokens", "64", "--ids"}));
}

TEST(GenerateTest, SameSeedDrawsTheSameOnAnyNumberOfRanks) {
  const Words drawing = {"--prompt", "ROMEO:", "--max-tokens", "32", "--ids", "--seed", "5"};
  const std::string one = run_command(generate_demo(drawing), 20).out;
  EXPECT_EQ(one, run_command(generate_demo(joined(drawing, {"--ranks", "3"})), 60).out);
  EXPECT_NE(
      one,
      run_command(
          generate_demo({"--prompt", "ROMEO:", "--max-tokens", "32", "--ids", "--seed", "6"}), 20)
          .out);
}

// The bytes of the --logits-out file of a prompt of many tokens, at one point.
std::string logits_file(const Words& point, const Words& environment = {}) {
  const std::string path = COLIBRI_BINARY_DIR "/logits_of_generate_test.npy";
  const std::string part =
      "def main(argv):\n    for name in sorted(argv[1:]):\n        print(name, "
      "len(name))\n    return 0\n\n\nclass Tree:\n    def __init__(self):\n";
  Words command = generate_demo({"--prompt", part + part, "--greedy", "--max-tokens", "4",
                                 "--logits-out", path, "--score-prompt"});
  if (!environment.empty()) command = under_mpirun(3, command);
  const CommandResult result = run_command(joined(command, point), 60, environment);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(path);
  return bytes;
}

TEST(GenerateTest, LogitsFilesAreByteIdenticalAtTwoDozenPoints) {
  const std::string reference = logits_file({});
  ASSERT_GT(reference.size(), 128 + 60 * 1536 * sizeof(float));
  const std::vector<Words> points = {
      {"--threads", "1"},
      {"--threads", "3", "--chunk", "1"},
      {"--isa", "portable"},
      {"--isa", "portable", "--ranks", "2", "--chunk", "7"},
      {"--ranks", "2"},
      {"--ranks", "2", "--chunk", "1"},
      {"--ranks", "2", "--coordinator-experts", "16"},
      {"--ranks", "2", "--self-exchange", "--coordinator-experts", "7"},
      {"--ranks", "3"},
      {"--ranks", "3", "--chunk", "7"},
      {"--ranks", "3", "--chunk", "64", "--threads", "2"},
      {"--ranks", "3", "--placement", "round-robin"},
      {"--ranks", "3", "--placement", "random:1", "--chunk", "7"},
      {"--ranks", "3", "--transport", "local", "--placement", "random:2"},
      {"--ranks", "3", "--bind", "inherit"},
      {"--ranks", "5"},
      {"--ranks", "5", "--placement", "random:3", "--chunk", "64"},
      {"--ranks", "5", "--coordinator-experts", "3", "--chunk", "1"},
      {"--ranks", "5", "--transport", "local", "--chunk", "7"},
      {"--ranks", "7"},
      {"--ranks", "7", "--placement", "round-robin", "--chunk", "7"},
      {"--ranks", "8", "--placement", "random:4"},
      {"--max-context", "2048", "--max-batch", "3"},
  };
  for (const Words& point : points) {
    EXPECT_TRUE(logits_file(point) == reference) << testing::PrintToString(point);
  }
  EXPECT_TRUE(logits_file({}, kMpiAsRoot) == reference) << "under mpirun";
  EXPECT_FALSE(logits_file({"--kv-dtype", "bf16"}) == reference) << "rounding the cache must show";
}

TEST(InspectTest, ShowsShapesExpertsAndWhoWouldHoldThem) {
  const CommandResult result =
      run_command({kProgram, "inspect", "--model", kDemo, "--for-ranks", "3"}, 20);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* fact : {"qwen3_moe", "softmax, top 4 of 16", "rank 2"}) {
    EXPECT_NE(result.out.find(fact), std::string::npos) << fact << " in\n" << result.out;
  }
}

TEST(DoctorTest, ChecksTheMachineAndPingsTwoRanks) {
  const CommandResult result = run_command({kProgram, "doctor"}, 60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* fact : {"/dev/shm", "instruction sets", "ping over mpi"}) {
    EXPECT_NE(result.out.find(fact), std::string::npos) << fact << " in\n" << result.out;
  }
}

}  // namespace
}  // namespace colibri
