// The same over NCCL between simulated GPUs: a new communicator among those that are left.

#include "tests/multi/simulated_gpus.h"
#include "tests/multi/survive_rig.h"

namespace colibri {
namespace {

class GpuSurviveTest : public SurviveTest {
 protected:
  void start_on_gpus(int num_ranks, const Words& environment = {},
                     const std::string& transport = "nccl") {
    num_requests_ = 3;
    start(num_ranks, 8, {"--device", "cuda", "--transport", transport, "--max-batch", "4"},
          gpu_environment(environment));
  }
};

TEST_F(GpuSurviveTest, KilledWorkersCostNoRequestAndNoByteUntilTheCoordinatorIsAlone) {
  start_on_gpus(3);
  const auto want = texts(32);
  EXPECT_EQ(texts(32, [&] { signal_within_steps(2, SIGKILL); }), want);
  expect_lost({2});
  EXPECT_EQ(texts(32, [&] { signal_within_steps(1, SIGKILL); }), want);
  expect_lost({1, 2});
  expect_clean_end(0);
}

// Rows then travel through host memory, which outlives the GPU's.
TEST_F(GpuSurviveTest, KilledWorkerCostsNothingOverMpi) {
  start_on_gpus(3, {}, "mpi");
  const auto want = texts(32);
  EXPECT_EQ(texts(32, [&] { signal_within_steps(2, SIGKILL); }), want);
  expect_lost({2});
  expect_clean_end(0);
}

TEST_F(GpuSurviveTest, StoppedWorkerIsTreatedAsLost) {
  start_on_gpus(3);
  const auto want = texts(32);
  EXPECT_EQ(texts(32, [&] { signal_within_steps(1, SIGSTOP); }), want);
  expect_lost({1});
  expect_clean_end(0);
}

TEST_F(GpuSurviveTest, LinkThatFailsWithoutALossIsJoinedAnewByAll) {
  start_on_gpus(2);
  const auto want = texts(32);
  expect_clean_end(0);
  start_on_gpus(2, {"COLIBRI_SIM_NCCL_FAULT=rank=0,op=120,kind=error"});
  EXPECT_EQ(texts(32), want);
  EXPECT_EQ(health().body["degraded"], false);
  EXPECT_NE(run_->err_so_far().find("goes on after"), std::string::npos) << run_->err_so_far();
  expect_clean_end(0);
}

TEST_F(GpuSurviveTest, RebalanceMovesExpertsUnderRequestsAndNoByte) {
  start_on_gpus(2);
  const auto want = texts(32);
  const nlohmann::json moved = moved_placement();
  Answer answer;
  EXPECT_EQ(texts(32, [&] { answer = ask(http_post("/rebalance", moved.dump())); }), want);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(texts(32), want);
  expect_clean_end(0);
}

}  // namespace
}  // namespace colibri
