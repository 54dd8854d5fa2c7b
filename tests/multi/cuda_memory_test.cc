// GPUs of unequal memory: who then holds experts, and that no bit changes. The simulated device
// hands out no byte more than it has.

#include <gtest/gtest.h>

#include "tests/multi/simulated_gpus.h"

namespace colibri {
namespace {

struct Answer {
  CommandResult result;
  std::string logits;  // bytes of the --logits-out file
};

// 14 experts in two layers, 11.5 KB each; steps of 16 tokens, so that workers need little else.
Answer run_split(const Words& more, const Words& environment) {
  const TempDir dir;
  const std::string path = (dir / "logits.npy").string();
  Words command = {kProgram, "generate", "--model", kFixtures + "qwen3_moe_split"};
  command = joined(command, {"--prompt-ids", comma_list(expectation_of("qwen3_moe_split").prompt)});
  command = joined(command, {"--greedy", "--ignore-eos", "--ids", "--max-tokens", "3", "--chunk",
                             "16", "--logits-out", path, "--score-prompt"});
  command = joined(joined(command, kOracleMode), more);
  Answer run;
  run.result = run_command(command, 120, environment);
  if (std::filesystem::exists(path)) run.logits = read_file(path);
  return run;
}

Answer run_on_gpus(const std::string& transport, const std::string& memory,
                   const Words& more = {}) {
  return run_split(joined(on_gpus({.ranks = 3, .transport = transport}), more),
                   gpu_environment({"COLIBRI_SIM_MEMORY=" + memory}));
}

const std::string& cpu_logits() {
  static const std::string logits = run_split({"--device", "cpu", "--threads", "1"}, {}).logits;
  return logits;
}

bool says(const CommandResult& result, const std::string& part) {
  return result.err.find(part) != std::string::npos;
}

// Besides, a worker needs 23 KB, or over NCCL 22 KB and what NCCL and graphs are taken to need.
TEST(GpuRoomTest, WhatTheOthersCannotHoldGoesToRankZeroAndIsSaid) {
  ASSERT_GT(cpu_logits().size(), 128u);
  const std::string text =
      "the other ranks cannot hold all experts: rank 0 holds 7 of 14 (all "
      "layers); experts a layer: rank 0 3-4, rank 1 2, rank 2 1-2";
  const Answer staged = run_on_gpus("mpi", "8000000000,76000,62000");
  EXPECT_EQ(staged.result.exit_code, 0) << staged.result.err;
  EXPECT_TRUE(says(staged.result, text)) << staged.result.err;
  EXPECT_TRUE(staged.logits == cpu_logits());
  const Answer direct = run_on_gpus("nccl", "8000000000,416090000,416070000");
  EXPECT_EQ(direct.result.exit_code, 0) << direct.result.err;
  EXPECT_TRUE(says(direct.result, "the other ranks cannot hold all experts: rank 0 holds "))
      << direct.result.err;
  EXPECT_TRUE(direct.logits == cpu_logits());
}

TEST(GpuRoomTest, UnequalGpusHoldUnequalShares) {
  const Answer run = run_on_gpus("mpi", "8000000000,76000,500000", {"--log-level", "info"});
  EXPECT_EQ(run.result.exit_code, 0) << run.result.err;
  EXPECT_FALSE(says(run.result, "cannot hold")) << run.result.err;
  EXPECT_TRUE(says(run.result, "rank 0: 0 experts")) << run.result.err;
  EXPECT_TRUE(says(run.result, "rank 1: 4 experts")) << run.result.err;
  EXPECT_TRUE(says(run.result, "rank 2: 10 experts")) << run.result.err;
  EXPECT_TRUE(run.logits == cpu_logits());
}

// The demo model: 64 experts of 147 KB, of which the other rank has room for few.
TEST(GpuRoomTest, ExpertsThatFitNowhereNameRanksRoomAndWhatToDo) {
  const Words more = {"--prompt-ids", "1,2", "--max-tokens", "1", "--ids", "--chunk", "16"};
  const CommandResult result =
      run_command(joined(generate_demo(more), on_gpus({.ranks = 2, .transport = "mpi"})), 60,
                  gpu_environment({"COLIBRI_SIM_MEMORY=14000000,1000000"}));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  for (const char* part :
       {"not enough memory for the experts: of 64 (all layers, 147 KB each) ", "rank 0's GPU 0",
        "rank 1's GPU 1", "; use more GPUs, a smaller --max-context"}) {
    EXPECT_TRUE(says(result, part)) << part << " in\n" << result.err;
  }
}

}  // namespace
}  // namespace colibri
