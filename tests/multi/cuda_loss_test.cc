// Runs on simulated GPUs that cannot start, or whose ranks die, stop, lag or fail: each ends within
// seconds with the agreed code, names the rank, and leaves no process.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "tests/multi/simulated_gpus.h"

namespace colibri {
namespace {

constexpr int kStepTimeoutSeconds = 3;
constexpr double kGraceSeconds = 12;

// The ranks that colibri's messages name ("rank 2", "ranks 1 and 3"), otherwise than as the one
// that speaks.
std::set<int> named_workers(const std::string& messages) {
  const std::regex names("ranks? ([0-9]+(?:(?:, | and )[0-9]+)*)"), number("[0-9]+");
  std::set<int> named;
  std::istringstream lines(messages);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("colibri: ", 0) != 0) continue;
    for (std::sregex_iterator list(line.begin(), line.end(), names), end; list != end; ++list) {
      const std::string ranks = list->str(1);
      for (std::sregex_iterator one(ranks.begin(), ranks.end(), number); one != end; ++one) {
        named.insert(std::stoi(one->str()));
      }
    }
  }
  named.erase(0);
  return named;
}

// A run of many steps on the demo model, found again by the name of its own link to it. Its text
// comes as it is made, which tells that steps are under way.
class GpuLossTest : public testing::Test {
 protected:
  GpuLossTest() {
    std::filesystem::create_directory_symlink(kDemo, dir_ / "model");
    marker_ = (dir_ / "model").string();
  }

  Words words(const Spread& spread, int num_tokens = 1900,
              int step_timeout_s = kStepTimeoutSeconds) const {
    Words command = {kProgram, "generate", "--model", marker_, "--prompt", "ROMEO:", "--greedy"};
    command = joined(command, {"--ignore-eos", "--max-tokens", std::to_string(num_tokens)});
    command = joined(command, {"--step-timeout", std::to_string(step_timeout_s)});
    return joined(command, on_gpus(spread));
  }

  // Calls `act` once steps are captured and replayed; `seconds` count from there.
  CommandResult run_until(const Spread& spread, const std::function<void(Command&)>& act) {
    Command run(words(spread), gpu_environment(spread.environment));
    const bool is_running = wait_until([&] { return run.out_so_far().size() > 24; }, 60);
    EXPECT_TRUE(is_running) << "no text came";
    const auto start = std::chrono::steady_clock::now();
    if (is_running) act(run);
    CommandResult result = run.wait(150);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  CommandResult run_and_signal(const Spread& spread, int rank, int number) {
    return run_until(spread, [&](Command&) {
      const pid_t pid = process_of_rank(marker_, rank);
      EXPECT_GT(pid, 0);
      if (pid > 0) ::kill(pid, number);
    });
  }

  void expect_nothing_left() {
    EXPECT_TRUE(wait_until([&] { return processes_with(marker_).empty(); }, 10));
  }

  void expect_lost(const CommandResult& result, int rank) {
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_EQ(named_workers(result.err), std::set{rank}) << result.err;
    expect_nothing_left();
  }

  void expect_soon_lost(const CommandResult& result, int rank) {
    EXPECT_LT(result.seconds, kStepTimeoutSeconds + kGraceSeconds) << result.err;
    expect_lost(result, rank);
  }

  void expect_fault_ends(const std::string& fault, int rank, const Words& more = {}) {
    SCOPED_TRACE(fault);
    const Spread spread{
        .ranks = 3, .more = more, .environment = {"COLIBRI_SIM_NCCL_FAULT=" + fault}};
    expect_lost(run_command(words(spread), 90, gpu_environment(spread.environment)), rank);
  }

  TempDir dir_;
  std::string marker_;
};

TEST_F(GpuLossTest, KilledWorkerIsNamed) {
  expect_soon_lost(run_and_signal({.ranks = 3}, 2, SIGKILL), 2);
}

TEST_F(GpuLossTest, KilledWorkerIsNamedOverMpi) {
  expect_soon_lost(run_and_signal({.ranks = 3, .transport = "mpi"}, 1, SIGKILL), 1);
}

TEST_F(GpuLossTest, KilledCoordinatorLeavesNothing) {
  const CommandResult result = run_and_signal({.ranks = 3}, 0, SIGKILL);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  expect_nothing_left();
}

TEST_F(GpuLossTest, StoppedWorkerIsNamed) {
  expect_soon_lost(run_and_signal({.ranks = 3}, 1, SIGSTOP), 1);
}

TEST_F(GpuLossTest, SlowWorkerIsNamed) { expect_fault_ends("rank=2,op=60,kind=slow:120000", 2); }

TEST_F(GpuLossTest, SilentWorkerIsNamed) { expect_fault_ends("rank=1,op=60,kind=silent", 1); }

TEST_F(GpuLossTest, WorkerOnWhichNcclFailsIsNamed) {
  expect_fault_ends("rank=2,op=60,kind=error", 2);
}

TEST_F(GpuLossTest, ErrorOfNcclOnTheCoordinatorIsTold) {
  const Spread spread{.ranks = 3,
                      .environment = {"COLIBRI_SIM_NCCL_FAULT=rank=0,op=120,kind=error"}};
  const CommandResult result = run_command(words(spread), 90, gpu_environment(spread.environment));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.err.find("rank 0: NCCL: "), std::string::npos) << result.err;
  expect_nothing_left();
}

TEST_F(GpuLossTest, WorkerThatDiesInsideNcclIsNamed) {
  expect_fault_ends("rank=1,op=60,kind=abort", 1);
}

TEST_F(GpuLossTest, WorkerThatNeverMeetsTheOthersIsNamed) {
  expect_fault_ends("rank=2,op=3,kind=silent", 2, {"--start-timeout", "4"});
}

TEST_F(GpuLossTest, WorkerSlowerThanAStepButNotThanItsTimeoutChangesNothing) {
  const Words command = words({.ranks = 3}, 6, 60);
  const CommandResult fast = run_command(command, 90, gpu_environment({}));
  const CommandResult slow = run_command(
      command, 90, gpu_environment({"COLIBRI_SIM_NCCL_FAULT=rank=1,op=40,kind=slow:800"}));
  EXPECT_EQ(slow.exit_code, 0) << slow.err;
  EXPECT_EQ(slow.out, fast.out);
}

TEST_F(GpuLossTest, InterruptEndsAllRanks) {
  const CommandResult result = run_until({.ranks = 3}, [](Command& run) { run.signal(SIGINT); });
  EXPECT_NE(result.exit_code, -1) << result.err;
  expect_nothing_left();
}

// ---- Runs that cannot start ---------------------------------------------------------------------

void expect_refused(const Words& command, const Words& parts, const Words& environment) {
  const CommandResult result = run_command(command, 60, environment);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " in\n" << result.err;
  }
}

Words one_token(const Words& more) {
  return joined(generate_demo({"--prompt-ids", "1,2", "--max-tokens", "1", "--ids"}), more);
}

TEST(GpuStartTest, TwoRanksOnOneGpuAreBothNamed) {
  const Words command = one_token(on_gpus({.ranks = 2}));
  expect_refused(command, {"2 ranks on ", "but 1 GPU"}, {"COLIBRI_SIM_DEVICES=1"});
  expect_refused(under_mpirun(2, one_token({"--device", "cuda:0"})), {"ranks 0 and 1", "GPU 0"},
                 gpu_environment(kMpiAsRoot));
}

// As a batch system may give each task a GPU of its own.
TEST(GpuStartTest, RankThatSeesOneGpuTakesIt) {
  Words command = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1"};
  const Words rank = one_token({"--device", "cuda", "--transport", "mpi"});
  command = joined(command, joined({"-x", "CUDA_VISIBLE_DEVICES=1"}, rank));
  command = joined(command, joined({":", "-n", "1", "-x", "CUDA_VISIBLE_DEVICES=0"}, rank));
  const CommandResult result = run_command(command, 60, gpu_environment(kMpiAsRoot));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (std::string& word : command) {
    if (word == "CUDA_VISIBLE_DEVICES=0") word = "CUDA_VISIBLE_DEVICES=1";
  }
  expect_refused(command, {"2 ranks on ", "but 1 GPU"}, gpu_environment(kMpiAsRoot));
}

TEST(GpuStartTest, UnequalGpusAreBothNamed) {
  const Words rank = one_token({"--device", "cuda"});
  Words command = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1"};
  command = joined(command, joined({"-x", "COLIBRI_SIM_CAPABILITY=9.0"}, rank));
  command = joined(command, {":", "-n", "1", "-x", "COLIBRI_SIM_CAPABILITY=8.0"});
  command = joined(command, rank);
  const Words environment = gpu_environment(kMpiAsRoot);
  expect_refused(command, {"rank 0", "9.0", "rank 1", "8.0", "--allow-mixed-gpus"}, environment);
}

// Two ranks, the second on a machine without NCCL.
CommandResult run_beside_a_rank_without_nccl(const std::string& transport) {
  const Words rank = one_token({"--device", "cuda", "--transport", transport});
  Words command = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1"};
  command = joined(command, joined(rank, {":", "-n", "1", "-x", "COLIBRI_SIM_NCCL=0"}));
  return run_command(joined(command, rank), 60, gpu_environment(kMpiAsRoot));
}

TEST(GpuStartTest, RankWithoutNcclIsNamedAndRowsGoThroughTheHost) {
  const CommandResult result = run_beside_a_rank_without_nccl("auto");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("rank 1 without NCCL: rows travel through host memory"),
            std::string::npos)
      << result.err;
}

TEST(GpuStartTest, RankWithoutTheNcclThatIsAskedForIsNamed) {
  const CommandResult result = run_beside_a_rank_without_nccl("nccl");
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("--transport nccl: rank 1 has no NCCL"), std::string::npos)
      << result.err;
}

TEST(GpuStartTest, PlanWithTheBuffersOfNcclIsHeldAgainstTheGpu) {
  expect_refused(one_token(on_gpus({.ranks = 2})),
                 {"not enough memory on rank ", "nccl 342 MB", "of 300 MB"},
                 {"COLIBRI_SIM_DEVICES=2", "COLIBRI_SIM_MEMORY=300000000"});
  const CommandResult staged =
      run_command(one_token(on_gpus({.ranks = 2, .transport = "mpi"})), 60,
                  {"COLIBRI_SIM_DEVICES=2", "COLIBRI_SIM_MEMORY=300000000"});
  EXPECT_EQ(staged.exit_code, 0) << staged.err;
}

TEST(GpuStartTest, NcclWithoutGpusNamesTheOption) {
  expect_refused(one_token({"--transport", "nccl", "--ranks", "2"}), {"--device cuda"}, {});
}

TEST(GpuStartTest, FixedShareWithoutNcclIsRefused) {
  expect_refused(one_token({"--fixed-share", "2"}), {"--fixed-share 2", "over NCCL"}, {});
}

TEST(GpuStartTest, RanksOnUnlikeDevicesAreNamed) {
  Words command = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1"};
  command = joined(command, one_token({"--device", "cuda"}));
  command = joined(command, joined({":", "-n", "1"}, one_token({"--device", "cpu"})));
  const CommandResult result = run_command(command, 60, gpu_environment(kMpiAsRoot));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("rank 1 on 'cpu'"), std::string::npos) << result.err;
}

// Rows for q8 experts have one form; results would not.
TEST(GpuStartTest, RanksWithUnlikeActivationsAreNamed) {
  const Words rank = {"--device", "cuda", "--weights", "q8", "--activations"};
  Words command = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1"};
  command = joined(command, one_token(joined(rank, {"f32"})));
  command = joined(command, joined({":", "-n", "1"}, one_token(joined(rank, {"bf16"}))));
  const CommandResult result = run_command(command, 60, gpu_environment(kMpiAsRoot));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("form of the experts' results"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace colibri
