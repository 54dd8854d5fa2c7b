// Models on simulated GPUs, one process each: transformers' ids and the CPU's bits from every
// number of ranks, over NCCL and over MPI.

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "tests/multi/simulated_gpus.h"
#include "tests/support/npy_file.h"

namespace colibri {
namespace {

constexpr double kLimitSeconds = 240;

std::vector<std::string> fixture_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    if (entry.is_directory()) names.insert(entry.path().filename());
  }
  return {names.begin(), names.end()};
}

std::string describe(const Spread& spread) {
  return std::to_string(spread.ranks) + " ranks over " + spread.transport + " " +
         testing::PrintToString(spread.more) + " " + testing::PrintToString(spread.environment);
}

// ---- Transformers' ids --------------------------------------------------------------------------

void expect_oracle_ids(const std::string& fixture, const Spread& spread) {
  SCOPED_TRACE(fixture + ", " + describe(spread));
  Expectation want = expectation_of(fixture);
  if (!is_full_run()) want.greedy.resize(6);
  Words command = {kProgram, "generate", "--model", kFixtures + fixture, "--weights", "f32"};
  command = joined(command, {"--prompt-ids", comma_list(want.prompt), "--greedy", "--ignore-eos"});
  command = joined(command, {"--ids", "--max-tokens", std::to_string(want.greedy.size())});
  const CommandResult result = run_command(joined(joined(command, kOracleMode), on_gpus(spread)),
                                           kLimitSeconds, gpu_environment(spread.environment));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, comma_list(want.greedy) + "\n") << result.err;
}

class GpuCountTest : public testing::TestWithParam<int> {};

// A short run takes two families to the least, the most and an odd number of GPUs, and deals the
// others out; a full one takes all to all.
TEST_P(GpuCountTest, TransformersIdsOverNccl) {
  const std::vector<int> counts = {1, 2, 3, 5, 8};
  const std::set<std::string> often = {"deepseek_v3_negative", "qwen3_moe_packed"};
  const bool is_of_often = GetParam() == 1 || GetParam() == 3 || GetParam() == 8;
  size_t dealt = 0;
  for (const std::string& fixture : fixture_names()) {
    const bool is_taken =
        often.contains(fixture) ? is_of_often : counts[dealt++ % counts.size()] == GetParam();
    if (!is_full_run() && !is_taken) continue;
    expect_oracle_ids(fixture, {.ranks = GetParam()});
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, GpuCountTest, testing::Values(1, 2, 3, 5, 8),
                         testing::PrintToStringParamName());

TEST(GpuTest, TransformersIdsOverMpi) {
  expect_oracle_ids("deepseek_v3_groups", {.ranks = 3, .transport = "mpi"});
  if (!is_full_run()) return;
  for (const std::string& fixture : fixture_names()) {
    for (const int ranks : {2, 5, 8}) {
      expect_oracle_ids(fixture, {.ranks = ranks, .transport = "mpi"});
    }
  }
}

// ---- Bits ---------------------------------------------------------------------------------------

// What is run. Its prompt is 60 ids of the fixture's, so that positions cross a page's end at 64,
// and decode steps are captured, replayed and captured anew.
struct Subject {
  std::string fixture;
  Words more = kOracleMode;
  int num_tokens = 8;
  std::vector<size_t> mates = {};  // lengths of other prompts in the batch
};

std::vector<int32_t> prompt_of(const Subject& subject, size_t length) {
  std::vector<int32_t> ids = expectation_of(subject.fixture).prompt;
  ids.resize(std::min(length, ids.size()));
  return ids;
}

Words prompt_words(const Subject& subject, const std::string& file) {
  if (subject.mates.empty()) return {"--prompt-ids", comma_list(prompt_of(subject, 60))};
  std::string lines;
  std::vector<size_t> lengths = {60};
  lengths.insert(lengths.end(), subject.mates.begin(), subject.mates.end());
  for (const size_t length : lengths) {
    lines += "{\"prompt_ids\": [" + comma_list(prompt_of(subject, length)) + "]}\n";
  }
  write_file(file, lines);
  return {"--prompts", file};
}

struct LogitsRun {
  std::string logits;  // bytes of the --logits-out file of the first prompt
  std::string err;
};

LogitsRun run_for_logits(const Subject& subject, const Words& where, const Words& environment) {
  const TempDir dir;
  const std::string path = (dir / "logits.npy").string();
  Words command = {kProgram, "generate", "--model", kFixtures + subject.fixture};
  command = joined(command, prompt_words(subject, (dir / "prompts.jsonl").string()));
  command = joined(command, {"--greedy", "--ignore-eos", "--ids"});
  command = joined(command, {"--logits-out", path, "--score-prompt", "--max-tokens"});
  command = joined(joined(command, {std::to_string(subject.num_tokens)}), subject.more);
  const CommandResult result = run_command(joined(command, where), kLimitSeconds, environment);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return {std::filesystem::exists(path) ? read_file(path) : "", result.err};
}

// What the summary says: "  7 steps with messages of fixed size, 2 (28.57 %) run again".
int num_reruns(const std::string& summary) {
  std::smatch found;
  const std::regex line("[0-9]+ steps with messages of fixed size, ([0-9]+) \\([0-9.]+ %\\) run");
  return std::regex_search(summary, found, line) ? std::stoi(found[1]) : -1;
}

// Which `where` sends to CPU or GPUs.
std::string logits_of(const Subject& subject, const Words& where, const Words& environment = {}) {
  return run_for_logits(subject, where, environment).logits;
}

std::string logits_of(const Subject& subject, const Spread& spread) {
  return logits_of(subject, on_gpus(spread), gpu_environment(spread.environment));
}

void expect_bytes(const Subject& subject, const std::string& want,
                  const std::vector<Spread>& spreads) {
  ASSERT_GT(want.size(), 128u);
  for (const Spread& spread : spreads) {
    EXPECT_TRUE(logits_of(subject, spread) == want) << subject.fixture << ", " << describe(spread);
  }
}

std::string cpu_logits_of(Subject subject) {
  subject.mates.clear();
  return logits_of(subject, Words{"--device", "cpu", "--threads", "1"});
}

TEST(GpuLogitsTest, HaveTheCpusBytesOverRanksTransportsAndChunks) {
  const Subject subject{.fixture = "deepseek_v3_groups"};
  expect_bytes(subject, cpu_logits_of(subject),
               {{.ranks = 1},
                {.ranks = 2, .more = {"--chunk", "7"}},
                {.ranks = 3, .more = {"--placement", "random:3", "--coordinator-experts", "2"}},
                {.ranks = 3, .transport = "mpi", .more = {"--chunk", "32"}},
                {.ranks = 8, .more = {"--chunk", "64"}}});
  Subject rounded = subject;
  rounded.more = {"--activations", "f32", "--kv-dtype", "bf16"};
  EXPECT_FALSE(cpu_logits_of(rounded) == cpu_logits_of(subject)) << "rounding must show";
}

TEST(GpuLogitsTest, HaveTheCpusBytesWithASharedExpert) {
  const Subject subject{.fixture = "qwen2_moe_shared"};
  expect_bytes(subject, cpu_logits_of(subject),
               {{.ranks = 2, .transport = "mpi", .more = {"--placement", "round-robin"}},
                {.ranks = 5, .more = {"--chunk", "16", "--coordinator-experts", "1"}}});
}

TEST(GpuLogitsTest, HaveTheCpusBytesWhereOwnRowsTravelToo) {
  const Subject subject{.fixture = "qwen2_moe_shared", .num_tokens = 8};
  const Words own = {"--self-exchange", "--coordinator-experts", "2"};
  expect_bytes(subject, cpu_logits_of(subject),
               {{.ranks = 2, .transport = "mpi", .more = own},
                {.ranks = 2, .more = own},
                {.ranks = 1, .more = {"--self-exchange"}, .environment = {"COLIBRI_SIM_SEED=2"}},
                {.ranks = 1, .more = {"--self-exchange", "--chunk", "100"}}});
}

// Steps whose results had no room run again with exact counts; the summary says how many. The first
// of all steps is not captured, so the second one that runs again was a graph's.
TEST(GpuLogitsTest, HaveTheCpusBytesWhereResultsDoNotFit) {
  const Subject subject{.fixture = "qwen2_moe_shared", .num_tokens = 10, .mates = {3, 41, 8, 5, 9}};
  const std::string want = cpu_logits_of(subject);
  struct Case {
    Spread spread;
    int least_reruns;
  };
  for (const Case& c : {Case{{.ranks = 1, .more = {"--self-exchange", "--fixed-share", "2"}}, 1},
                        Case{{.ranks = 3, .more = {"--chunk", "32", "--fixed-share", "2"}}, 1},
                        Case{{.ranks = 5, .more = {"--fixed-share", "1"}}, 2}}) {
    const LogitsRun run = run_for_logits(subject, on_gpus(c.spread), gpu_environment({}));
    EXPECT_TRUE(run.logits == want) << describe(c.spread);
    EXPECT_GE(num_reruns(run.err), c.least_reruns) << describe(c.spread) << run.err;
  }
}

// Seeds say in which order threads and blocks run; streams run at once, as late as they may, or now
// and then.
TEST(GpuLogitsTest, DoNotDependOnTheOrderInWhichGpusWork) {
  const Subject subject{.fixture = "qwen3_moe_split", .num_tokens = 5};
  std::vector<Spread> spreads = {
      {.ranks = 3, .environment = {"COLIBRI_SIM_SEED=3", "COLIBRI_SIM_STREAMS=at-once"}},
      {.ranks = 3, .environment = {"COLIBRI_SIM_SEED=7", "COLIBRI_SIM_STREAMS=late"}},
      {.ranks = 3, .environment = {"COLIBRI_SIM_SEED=11", "COLIBRI_SIM_STREAMS=mixed"}},
      {.ranks = 2, .transport = "mpi", .environment = {"COLIBRI_SIM_SEED=13"}}};
  for (int seed = 20; is_full_run() && seed < 40; ++seed) {
    spreads.push_back({.ranks = 3, .environment = {"COLIBRI_SIM_SEED=" + std::to_string(seed)}});
  }
  expect_bytes(subject, cpu_logits_of(subject), spreads);
}

// Equal prompts choose equal experts: some ranks have far more results than their share.
TEST(GpuLogitsTest, DoNotDependOnMates) {
  Subject subject{.fixture = "deepseek_v3_groups", .num_tokens = 6, .mates = {3, 41, 8}};
  const std::string want = cpu_logits_of(subject);
  expect_bytes(subject, want, {{.ranks = 3}, {.ranks = 2, .transport = "mpi"}});
  subject.mates = std::vector<size_t>(9, 20);
  expect_bytes(subject, want, {{.ranks = 5, .more = {"--chunk", "64"}}});
}

TEST(GpuLogitsTest, HaveTheCpusBytesWithExpertsOfEightAndFourBits) {
  for (const char* weights : {"q8", "q4"}) {
    const Subject subject{.fixture = "deepseek_v3_fp8",
                          .more = joined(kOracleMode, {"--weights", weights}),
                          .num_tokens = 3};
    expect_bytes(subject, cpu_logits_of(subject), {{.ranks = 3}});
    if (!is_full_run()) continue;
    expect_bytes(subject, cpu_logits_of(subject),
                 {{.ranks = 1}, {.ranks = 2, .transport = "mpi"}, {.ranks = 8}});
  }
}

// ---- Drawn tokens -------------------------------------------------------------------------------

void expect_cpus_ids(const Words& command, int ranks) {
  const CommandResult cpu = run_command(joined(command, {"--device", "cpu"}), kLimitSeconds);
  const CommandResult gpus =
      run_command(joined(command, on_gpus({.ranks = ranks})), kLimitSeconds, gpu_environment({}));
  EXPECT_EQ(cpu.exit_code, 0) << cpu.err;
  EXPECT_EQ(gpus.exit_code, 0) << gpus.err;
  EXPECT_EQ(gpus.out, cpu.out) << gpus.err;
}

// Nobody reads the logits: the GPU draws, for four prompts of a batch, in replayed steps.
TEST(GpuTest, DrawsTheCpusTokens) {
  const TempDir dir;
  const Subject subject{.fixture = "qwen3_moe_split", .mates = {3, 21, 8}};
  const std::string model = kFixtures + subject.fixture;
  Words command = {kProgram, "generate", "--model", model, "--weights", "f32", "--seed", "5"};
  command = joined(command, {"--temperature", "3", "--top-k", "40", "--top-p", "0.95"});
  command = joined(command, {"--ignore-eos", "--ids", "--max-tokens", "8"});
  expect_cpus_ids(
      joined(joined(command, kOracleMode), prompt_words(subject, dir / "prompts.jsonl")), 3);
}

// From 1536 tokens, of more than a GPU draws: the host does.
TEST(GpuTest, TokensOfAWholeVocabularyAreTheCpus) {
  const Words command = generate_demo({"--prompt-ids", "1,2,3", "--max-tokens", "5", "--ids",
                                       "--ignore-eos", "--temperature", "1.5", "--top-k", "0"});
  expect_cpus_ids(joined(command, kOracleMode), 2);
}

// ---- bf16 ---------------------------------------------------------------------------------------

double relative_rms(const std::string& got_bytes, const std::string& want_bytes) {
  const TempDir dir;
  write_file(dir / "got.npy", got_bytes);
  write_file(dir / "want.npy", want_bytes);
  const NpyArray got = read_npy(dir / "got.npy"), want = read_npy(dir / "want.npy");
  if (got.values.size() != want.values.size()) return INFINITY;
  double error = 0, size = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double difference = static_cast<double>(got.values[i]) - want.values[i];
    error += difference * difference;
    size += static_cast<double>(want.values[i]) * want.values[i];
  }
  return std::sqrt(error / size);
}

// Activations and cache in bf16, which a GPU has unless told otherwise.
TEST(GpuBf16Test, SameBytesFromEveryRankAndTransportNearF32) {
  for (const char* fixture : {"deepseek_v3_plain", "qwen3_moe_yarn"}) {
    const Subject subject{.fixture = fixture, .more = {}, .num_tokens = 4};
    const std::string one = logits_of(subject, Spread{.environment = {"COLIBRI_SIM_SEED=4"}});
    std::vector<Spread> spreads = {
        {.ranks = 3,
         .more = {"--chunk", "13", "--coordinator-experts", "1"},
         .environment = {"COLIBRI_SIM_SEED=5"}},
        {.ranks = 2, .transport = "mpi", .more = {"--coordinator-experts", "1"}}};
    if (is_full_run()) spreads.push_back({.ranks = 8});
    expect_bytes(subject, one, spreads);
    Subject exact = subject;
    exact.more = {"--weights", "f32", "--kv-dtype", "f32"};
    const double error = relative_rms(one, cpu_logits_of(exact));
    RecordProperty(std::string("relative_rms_of_") + fixture, std::to_string(error));
    EXPECT_LT(error, 0.03) << fixture;
    EXPECT_GT(error, 1e-5) << fixture << ": rounding must show";
  }
}

}  // namespace
}  // namespace colibri
