// Ranks that die or stop, and interruption: the run ends with the right code, names the rank, and
// leaves no process.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/multi/program.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

// A run of many slow steps on the demo model, found again by the name of its own link to it.
class LongRun : public testing::Test {
 protected:
  LongRun() {
    std::filesystem::create_directory_symlink(kDemo, dir_ / "model");
    marker_ = (dir_ / "model").string();
    std::ofstream prompts(dir_ / "prompts.jsonl");
    for (int i = 0; i < 16; ++i) prompts << "\"ROMEO:\"\n";
  }

  // Slow on purpose: the portable kernels, sixteen sequences, to the end of the context.
  Words words() const {
    return {kProgram,       "generate",       "--model",
            marker_,        "--prompts",      (dir_ / "prompts.jsonl").string(),
            "--greedy",     "--max-tokens",   "1900",
            "--ignore-eos", "--ids",          "--isa",
            "portable",     "--step-timeout", "3"};
  }

  pid_t wait_for_rank(int rank) const {
    pid_t pid = -1;
    wait_until([&] { return (pid = process_of_rank(marker_, rank)) > 0; }, 20);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // into the steps
    return pid;
  }

  void expect_nothing_left() const {
    EXPECT_TRUE(wait_until([&] { return processes_with(marker_).empty(); }, 10));
  }

  TempDir dir_;
  std::string marker_;
};

TEST_F(LongRun, KilledWorkerEndsTheRunAndIsNamed) {
  Command run(joined(words(), {"--ranks", "3"}));
  const pid_t worker = wait_for_rank(2);
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  const CommandResult result = run.wait(20);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.err.find("rank 2"), std::string::npos) << result.err;
  expect_nothing_left();
}

TEST_F(LongRun, StoppedWorkerEndsTheRunWithinTheStepTimeoutAndIsNamed) {
  Command run(joined(words(), {"--ranks", "3"}));
  const pid_t worker = wait_for_rank(1);
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGSTOP);
  const CommandResult result = run.wait(20);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.err.find("rank 1"), std::string::npos) << result.err;
  expect_nothing_left();
}

TEST_F(LongRun, InterruptEndsAllRanks) {
  Command run(joined(words(), {"--ranks", "3"}));
  ASSERT_GT(wait_for_rank(2), 0);
  run.signal(SIGINT);
  const CommandResult result = run.wait(20);
  EXPECT_NE(result.exit_code, -1) << result.err;
  expect_nothing_left();
}

// RanksTest says so of a smaller program in every run.
TEST_F(LongRun, KilledLauncherLeavesNothing) {
  if (std::getenv("FULL_TESTS") == nullptr) GTEST_SKIP() << "set FULL_TESTS=1";
  Command run(joined(words(), {"--ranks", "3"}));
  ASSERT_GT(wait_for_rank(2), 0);
  run.signal(SIGKILL);
  run.wait(20);
  expect_nothing_left();
}

TEST_F(LongRun, KilledWorkerUnderBareMpirunLeavesNothing) {
  Command run(under_mpirun(3, words()), kMpiAsRoot);
  const pid_t worker = wait_for_rank(2);
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  EXPECT_NE(run.wait(20).exit_code, 0);
  expect_nothing_left();
}

}  // namespace
}  // namespace colibri
