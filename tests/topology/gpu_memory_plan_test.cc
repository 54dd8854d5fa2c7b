#include "topology/gpu_memory_plan.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/topology/shapes.h"

namespace colibri {
namespace {

// E = 5, K = 2, H = 4, I = 3, V = 10, two MoE layers of 1000-byte experts and a dense one.
ModelShape numbered_shape() {
  ModelShape shape = shape_of(5, {false, true, true});
  shape.vocab_size = 10;
  shape.coordinator_weight_bytes = 700;
  shape.kv_bytes_per_token = 8;
  return shape;
}

const GpuPlanOptions kOptions{.base = {.max_context = 65, .max_batch = 3, .max_tokens = 6},
                              .library_workspace_bytes = 32,
                              .nccl_bytes = 400,
                              .staging_bytes = 77};

GpuInfo gpu() {
  GpuInfo info;
  info.ordinal = 3;
  info.name = "NVIDIA H100";
  info.uuid = "GPU-1";
  info.memory_bytes = 80'000'000'000;
  return info;
}

TEST(GpuMemoryPlanTest, CoordinatorAndWorkerByHand) {
  // Rank 1 holds experts 0 1 2, rank 2 holds 3 4, in both MoE layers.
  const ModelShape shape = numbered_shape();
  const auto plan = plan_gpu_memory(shape, contiguous_placement(shape, {.num_ranks = 3}), kOptions);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0], (GpuNeed{.weight_bytes = 700,
                              .kv_cache_bytes = 128 * 3 * 8,
                              .workspace_bytes = 4 * (3 * 6 * 4 + 6 * 5) + 32,
                              .message_bytes = 4 * 4 * (6 * 2 + 6 * 2),
                              .logits_bytes = 4 * 3 * 10,
                              .nccl_bytes = 400,
                              .staging_bytes = 77}));
  EXPECT_EQ(plan[1], (GpuNeed{.expert_bytes = 6000,
                              .workspace_bytes = 8 * 3 * (6 * 2),
                              .message_bytes = 4 * 4 * (6 + 6 * 2),
                              .nccl_bytes = 400,
                              .staging_bytes = 77}));
  EXPECT_EQ(plan[0].total_bytes(), 700 + 3072 + 440 + 384 + 120 + 400);  // staging is the host's
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

TEST(GpuMemoryPlanTest, KvPositionsThatFitAreWholePages) {
  const GpuNeed need{.weight_bytes = 1000, .kv_cache_bytes = 123456};
  EXPECT_EQ(kv_positions_that_fit(need, 10, 1000 + 64 * 10 * 3 + 639), 192);
  EXPECT_EQ(kv_positions_that_fit(need, 10, 999), 0);
}

TEST(GpuMemoryPlanTest, ExpertsThatTheOthersCannotHoldGoToRankZero) {
  const ModelShape shape = numbered_shape();
  // Workers: P = 12 pairs, workspace 288, messages 288, NCCL 400; then room for 3 slots each.
  const std::vector<int64_t> free = {100'000, 3976, 3976};
  const auto capacity = gpu_slot_capacities(shape, kOptions, free);
  EXPECT_EQ(capacity[1], 3);
  EXPECT_EQ(capacity[2], 3);
  const Placement placement =
      contiguous_placement(shape, {.num_ranks = 3, .capacity_slots = capacity});
  EXPECT_EQ(placement.num_slots(0), 4);
  EXPECT_EQ(placement.num_slots(1) + placement.num_slots(2), 6);
}

TEST(GpuMemoryPlanTest, NcclTakesNothingForOneRank) {
  EXPECT_EQ(nccl_buffer_bytes(1), 0);
  EXPECT_EQ(nccl_buffer_bytes(2), 342'000'000);
  EXPECT_EQ(nccl_buffer_bytes(8), 392'000'000);
}

TEST(GpuMemoryPlanTest, TableHasALineARankAndTheHostsPart) {
  const std::vector<GpuNeed> plan = {{.weight_bytes = 2'000'000, .staging_bytes = 5'000'000},
                                     {.expert_bytes = 3'000'000, .staging_bytes = 5'000'000}};
  const std::vector<GpuInfo> gpus = {gpu(), gpu()};
  EXPECT_EQ(
      gpu_memory_table(plan, gpus),
      "GPU memory    experts    weights   kv cache  workspace   messages     logits       nccl"
      "      total  of\n"
      "rank 0            0 B    2.00 MB        0 B        0 B        0 B        0 B        0 B"
      "    2.00 MB  80.0 GB, NVIDIA H100\n"
      "rank 1        3.00 MB        0 B        0 B        0 B        0 B        0 B        0 B"
      "    3.00 MB  80.0 GB, NVIDIA H100\n"
      "and 10.0 MB of pinned host memory\n");
}

TEST(GpuMemoryPlanTest, NegativeSizesAreWrongInput) {
  const ModelShape shape = numbered_shape();
  GpuPlanOptions options = kOptions;
  options.nccl_bytes = -1;
  EXPECT_ERROR(plan_gpu_memory(shape, contiguous_placement(shape, {.num_ranks = 1}), options),
               kInput, "nccl_bytes is -1");
}

}  // namespace
}  // namespace colibri
