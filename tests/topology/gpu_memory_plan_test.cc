#include "topology/gpu_memory_plan.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/topology/shapes.h"
#include "topology/placement.h"

namespace colibri {
namespace {

GpuInfo gpu(int ordinal = 3) {
  GpuInfo info;
  info.ordinal = ordinal;
  info.name = "NVIDIA H100";
  info.uuid = "GPU-1";
  info.memory_bytes = 80'000'000'000;
  return info;
}

// Of every line a number with a digit of its own.
const GpuNeed kEveryLine{.expert_bytes = 1,
                         .weight_bytes = 20,
                         .kv_cache_bytes = 300,
                         .workspace_bytes = 4000,
                         .message_bytes = 50'000,
                         .logits_bytes = 600'000,
                         .library_bytes = 7'000'000,
                         .bench_bytes = 80'000'000,
                         .graph_bytes = 900'000'000,
                         .nccl_bytes = 1'000'000'000,
                         .start_bytes = 5,
                         .staging_bytes = 6,
                         .host_bytes = 7};

TEST(GpuMemoryPlanTest, TotalIsAllButStartAndHostAndTheDeviceGivesAllButGraphsAndNccl) {
  EXPECT_EQ(kEveryLine.total_bytes(), 1'987'654'321);
  EXPECT_EQ(kEveryLine.allocated_bytes(), 87'654'321);
}

TEST(GpuMemoryPlanTest, PlanThatFitsPassesToTheByte) {
  const GpuNeed need{.expert_bytes = 900, .nccl_bytes = 100};
  EXPECT_NO_THROW(check_gpu_memory(0, need, gpu(), {.free_bytes = 1000, .total_bytes = 2000}));
  EXPECT_ERROR(check_gpu_memory(0, need, gpu(), {.free_bytes = 999, .total_bytes = 2000}),
               kEnvironment, "not enough memory");
}

TEST(GpuMemoryPlanTest, RefusalNamesRankGpuSizesAndWhatToDo) {
  const GpuNeed need{.expert_bytes = 90'000'000'000, .nccl_bytes = 392'000'000};
  const GpuMemory memory{.free_bytes = 79'000'000'000, .total_bytes = 80'000'000'000};
  EXPECT_ERROR(check_gpu_memory(2, need, gpu(), memory), kEnvironment,
               "rank 2's GPU 3 (NVIDIA H100, GPU-1): it needs 90.4 GB (experts 90.0 GB, nccl 392 "
               "MB), free are 79.0 GB of 80.0 GB; use more GPUs, a smaller --max-context");
}

TEST(GpuMemoryPlanTest, WhatTheStartTakesMustFitToo) {
  const GpuNeed need{.weight_bytes = 10, .start_bytes = 1001};
  EXPECT_ERROR(check_gpu_memory(0, need, gpu(), {.free_bytes = 1000, .total_bytes = 2000}),
               kEnvironment, "it needs 1.00 KB (to try dense products at the start), free are");
}

TEST(GpuMemoryPlanTest, KvPositionsThatFitAreWholePages) {
  const GpuNeed need{.weight_bytes = 1000, .kv_cache_bytes = 123456};
  EXPECT_EQ(kv_positions_that_fit(need, 10, 1000 + 64 * 10 * 3 + 639), 192);
  EXPECT_EQ(kv_positions_that_fit(need, 10, 999), 0);
}

// ---- Room for experts ---------------------------------------------------------------------------

const std::vector<GpuNeed> kFixed = {{.weight_bytes = 5000, .nccl_bytes = 400},
                                     {.message_bytes = 600, .nccl_bytes = 400},
                                     {.message_bytes = 600, .nccl_bytes = 400}};

std::vector<GpuMemory> with_free(const std::vector<int64_t>& bytes) {
  std::vector<GpuMemory> memory;
  for (const int64_t free : bytes) memory.push_back({.free_bytes = free, .total_bytes = 2 * free});
  return memory;
}

TEST(GpuCapacityTest, IsWhatLiesBesideTheRestInWholeSlots) {
  const auto capacity = gpu_slot_capacities(kFixed, 1000, with_free({7400, 4999, 500}));
  EXPECT_EQ(capacity, (std::vector<int64_t>{2, 3, 0}));
}

TEST(GpuCapacityTest, UnequalGpusHoldUnequalShares) {
  // E = 5, two MoE layers: ten slots. The small GPU has room for three, the large one takes seven.
  const auto capacity = gpu_slot_capacities(kFixed, 1000, with_free({100'000, 4000, 100'000}));
  const Placement placement =
      contiguous_placement(shape_of(5, {true, true}), {.num_ranks = 3, .capacity_slots = capacity});
  EXPECT_EQ(placement.num_slots(0), 0);
  EXPECT_EQ(placement.num_slots(1), 3);
  EXPECT_EQ(placement.num_slots(2), 7);
}

TEST(GpuCapacityTest, ExpertsThatTheOthersCannotHoldGoToRankZero) {
  const auto capacity = gpu_slot_capacities(kFixed, 1000, with_free({100'000, 4000, 4000}));
  const Placement placement =
      contiguous_placement(shape_of(5, {true, true}), {.num_ranks = 3, .capacity_slots = capacity});
  EXPECT_EQ(placement.num_slots(0), 4);
  EXPECT_EQ(placement.num_slots(1) + placement.num_slots(2), 6);
}

TEST(GpuCapacityTest, SizesThatCannotBeAreWrongInput) {
  const std::vector<GpuNeed> need = {{.kv_cache_bytes = -1}};
  EXPECT_ERROR(gpu_slot_capacities(need, 1000, with_free({1})), kInput, "kv cache is -1 bytes");
}

TEST(GpuCapacityTest, ExpertsThatFitNowhereNameEveryRankTheNeedAndWhatToDo) {
  const std::vector<GpuInfo> gpus = {gpu(0), gpu(1), gpu(2)};
  const auto memory = with_free({7400, 4999, 500});
  const std::vector<int64_t> capacity = {2, 3, 0};
  ExpertRoom room{.num_slots = 5,
                  .slot_bytes = 1000,
                  .capacity_slots = capacity,
                  .fixed = kFixed,
                  .gpu_of_rank = gpus,
                  .memory = memory};
  EXPECT_NO_THROW(check_expert_room(room));
  room.num_slots = 8;
  EXPECT_ERROR(check_expert_room(room), kEnvironment,
               "not enough memory for the experts: of 8 (all layers, 1.00 KB each) 3 fit nowhere, "
               "3.00 KB: rank 0's GPU 0 has room for 2 beside 5.40 KB of other things in 7.40 KB, "
               "rank 1's GPU 1 has room for 3 beside ");
  EXPECT_ERROR(check_expert_room(room), kEnvironment, "; use more GPUs, a smaller --max-context");
}

// ---- What was taken -----------------------------------------------------------------------------

const GpuNeed kPlanned{
    .expert_bytes = 100, .weight_bytes = 20, .workspace_bytes = 7, .staging_bytes = 4};
const GpuTaken kTaken{
    .expert_bytes = 100, .weight_bytes = 20, .allocated_bytes = 127, .staging_bytes = 4};

TEST(GpuTakenTest, WhatWasPlannedPassesAndLessOfTheRestToo) {
  EXPECT_NO_THROW(check_gpu_taken(1, kPlanned, kTaken));
  GpuTaken less = kTaken;
  less.allocated_bytes = less.staging_bytes = 0;
  EXPECT_NO_THROW(check_gpu_taken(1, kPlanned, less));
}

TEST(GpuTakenTest, WeightsAreExact) {
  for (const int64_t wrong : {99, 101}) {
    GpuTaken taken = kTaken;
    taken.expert_bytes = wrong;
    EXPECT_ERROR(check_gpu_taken(1, kPlanned, taken), kInternal,
                 "memory of rank 1's GPU: experts took " + std::to_string(wrong) +
                     " bytes, planned were 100");
  }
  GpuTaken taken = kTaken;
  taken.weight_bytes = 19;
  EXPECT_ERROR(check_gpu_taken(0, kPlanned, taken), kInternal,
               "weights took 19 bytes, planned were 20");
}

TEST(GpuTakenTest, MoreOfTheRestIsRefused) {
  GpuTaken taken = kTaken;
  taken.allocated_bytes = 128;
  EXPECT_ERROR(check_gpu_taken(0, kPlanned, taken), kInternal,
               "all together took 128 bytes, planned were 127");
  taken = kTaken;
  taken.staging_bytes = 5;
  EXPECT_ERROR(check_gpu_taken(0, kPlanned, taken), kInternal,
               "pinned host memory took 5 bytes, planned were 4");
}

// ---- The rest -----------------------------------------------------------------------------------

TEST(GpuMemoryPlanTest, HostMemoryHoldsWhatAllRanksNeedBesideTheirGpus) {
  const std::vector<GpuNeed> plan = {{.staging_bytes = 1000},
                                     {.staging_bytes = 1000, .host_bytes = 2000}};
  EXPECT_NO_THROW(check_host_memory(plan, 4000));
  EXPECT_ERROR(
      check_host_memory(plan, 3000), kEnvironment,
      "its ranks need 4.00 KB, available are 3.00 KB; rank 1 needs most, 3.00 KB, of which "
      "pinned 1.00 KB");
}

TEST(GpuMemoryPlanTest, NcclTakesNothingForOneRank) {
  EXPECT_EQ(nccl_buffer_bytes(1), 0);
  EXPECT_EQ(nccl_buffer_bytes(2), 342'000'000);
  EXPECT_EQ(nccl_buffer_bytes(8), 392'000'000);
}

TEST(GpuMemoryPlanTest, TableHasALineARankTheColumnsThatAreNeededAndTheHostsPart) {
  const std::vector<GpuNeed> plan = {
      {.weight_bytes = 2'000'000, .graph_bytes = 24'000'000, .staging_bytes = 5'000'000},
      {.expert_bytes = 3'000'000, .staging_bytes = 5'000'000, .host_bytes = 4'000'000}};
  const std::vector<GpuInfo> gpus = {gpu(), gpu()};
  EXPECT_EQ(gpu_memory_table(plan, gpus),
            "GPU memory     experts     weights graphs est.       total  of\n"
            "rank 0             0 B     2.00 MB     24.0 MB     26.0 MB  80.0 GB, NVIDIA H100\n"
            "rank 1         3.00 MB         0 B         0 B     3.00 MB  80.0 GB, NVIDIA H100\n"
            "and 14.0 MB of host memory, of which pinned 10.0 MB\n");
}

}  // namespace
}  // namespace colibri
