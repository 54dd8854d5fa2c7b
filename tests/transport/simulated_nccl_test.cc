// The simulated NCCL with one rank, without MPI.
#include "simulated_nccl.h"

#include <gtest/gtest.h>

#include "tests/transport/nccl_rig.h"

namespace colibri {
namespace {

class SimulatedNccl : public testing::Test {
 protected:
  ~SimulatedNccl() override { colibri_sim::set_nccl_fault(""); }

  NcclRig& rig(bool is_blocking = true) {
    if (!rig_) rig_ = std::make_unique<NcclRig>(0, 1, 0, new_nccl_id(), is_blocking);
    return *rig_;
  }
  DeviceNumbers& numbers(const std::vector<int32_t>& values) {
    arrays_.push_back(std::make_unique<DeviceNumbers>(*rig().device, *rig().stream, values));
    return *arrays_.back();
  }
  // What rank 0 sends to itself in one group.
  ncclResult_t exchange(DeviceNumbers& from, DeviceNumbers& to, size_t sent, size_t received) {
    ncclGroupStart();
    ncclSend(from.data(), sent, ncclInt32, 0, rig().comm, rig().native());
    ncclRecv(to.data(), received, ncclInt32, 0, rig().comm, rig().native());
    return ncclGroupEnd();
  }

  std::unique_ptr<NcclRig> rig_;
  std::vector<std::unique_ptr<DeviceNumbers>> arrays_;
};

TEST_F(SimulatedNccl, MovesBytesFromARankToItself) {
  auto &from = numbers({1, 2, 3}), &to = numbers({0, 0, 0});
  EXPECT_EQ(exchange(from, to, 3, 3), ncclSuccess);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(SimulatedNccl, EndsPairsOfNothing) {
  auto &from = numbers({1}), &to = numbers({7});
  EXPECT_EQ(exchange(from, to, 0, 0), ncclSuccess);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{7}));
}

TEST_F(SimulatedNccl, RefusesASendToItselfThatTheGroupDoesNotReceive) {
  auto& from = numbers({1});
  EXPECT_EQ(ncclSend(from.data(), 1, ncclInt32, 0, rig().comm, rig().native()), ncclInvalidUsage);
}

TEST_F(SimulatedNccl, FindsCountsThatDiffer) {
  auto &from = numbers({1, 2}), &to = numbers({0, 0});
  exchange(from, to, 2, 1);
  EXPECT_FALSE(rig().runs_dry_within(50));
  EXPECT_EQ(rig().async_error(), ncclInvalidUsage);
  EXPECT_STREQ(ncclGetLastError(rig().comm), "sends 2 int32 to itself and receives 1 int32");
  rig().abort();
  EXPECT_TRUE(rig().runs_dry_within(1000));
}

TEST_F(SimulatedNccl, RefusesMemoryOfTheHost) {
  int32_t here = 0;
  EXPECT_EQ(ncclRecv(&here, 1, ncclInt32, 0, rig().comm, rig().native()), ncclInvalidArgument);
}

TEST_F(SimulatedNccl, RefusesRanksThatAreNotThere) {
  auto& to = numbers({0});
  EXPECT_EQ(ncclRecv(to.data(), 1, ncclInt32, 1, rig().comm, rig().native()), ncclInvalidArgument);
}

TEST_F(SimulatedNccl, RefusesAConfigurationWithoutInitializer) {
  ncclConfig_t config = {};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_nccl_id(), 0, &config), ncclInvalidArgument);
}

TEST_F(SimulatedNccl, PutsANonblockingGroupOnTheStreamOnlyWhenAsked) {
  rig(false);
  auto &from = numbers({5}), &to = numbers({0});
  EXPECT_EQ(exchange(from, to, 1, 1), ncclInProgress);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{0}));
  EXPECT_EQ(rig().async_error(), ncclSuccess);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{5}));
}

TEST_F(SimulatedNccl, RefusesUseWhileALastCallIsInProgress) {
  rig(false);
  auto &from = numbers({5}), &to = numbers({0});
  exchange(from, to, 1, 1);
  EXPECT_EQ(exchange(from, to, 1, 1), ncclInvalidArgument);
  rig().async_error();
  EXPECT_EQ(exchange(from, to, 1, 1), ncclInProgress);
  rig().async_error();
}

TEST_F(SimulatedNccl, ReducesWhatARankAloneHas) {
  auto &from = numbers({4, -2}), &to = numbers({0, 0});
  EXPECT_EQ(
      ncclAllReduce(from.data(), to.data(), 2, ncclInt32, ncclMin, rig().comm, rig().native()),
      ncclSuccess);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{4, -2}));
}

TEST_F(SimulatedNccl, ReplaysWhatWasCaptured) {
  auto &from = numbers({1}), &to = numbers({0});
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  cudaStreamBeginCapture(rig().native(), cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(exchange(from, to, 1, 1), ncclSuccess);
  cudaStreamEndCapture(rig().native(), &graph);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{0}));
  for (const int32_t value : {8, 9}) {
    from.set({value});
    cudaGraphLaunch(replay, rig().native());
    EXPECT_EQ(to.get(), (std::vector<int32_t>{value}));
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_F(SimulatedNccl, CountsOperationsUpToAPlantedError) {
  colibri_sim::set_nccl_fault("rank=0,op=3,kind=error");
  auto &from = numbers({5}), &to = numbers({0});
  exchange(from, to, 1, 1);
  EXPECT_TRUE(rig().runs_dry_within(1000));
  exchange(from, to, 1, 1);
  EXPECT_FALSE(rig().runs_dry_within(50));
  EXPECT_EQ(rig().async_error(), ncclSystemError);
  rig().abort();
}

TEST_F(SimulatedNccl, IsLateByAPlantedDelay) {
  colibri_sim::set_nccl_fault("rank=0,op=1,kind=slow:100");
  auto &from = numbers({5}), &to = numbers({0});
  exchange(from, to, 1, 1);
  EXPECT_FALSE(rig().runs_dry_within(20));
  EXPECT_EQ(rig().async_error(), ncclSuccess);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{5}));
}

TEST_F(SimulatedNccl, SaysWhatASilentOperationWaitsFor) {
  colibri_sim::set_nccl_fault("rank=0,op=2,kind=silent");
  auto &from = numbers({5}), &to = numbers({0});
  exchange(from, to, 1, 1);
  EXPECT_FALSE(rig().runs_dry_within(50));
  EXPECT_EQ(rig().async_error(), ncclSuccess);
  EXPECT_NE(colibri_sim::nccl_pending(rig().comm).find("receive of 1 int32 from rank 0"),
            std::string::npos);
  rig().abort();
}

TEST_F(SimulatedNccl, LeavesNoCommunicatorBehind) {
  rig();
  EXPECT_EQ(colibri_sim::num_live_nccl_comms(), 1);
  rig_.reset();
  EXPECT_EQ(colibri_sim::num_live_nccl_comms(), 0);
}

}  // namespace
}  // namespace colibri
