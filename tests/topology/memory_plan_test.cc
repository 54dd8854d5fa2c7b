#include "topology/memory_plan.h"

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

const MemoryPlanOptions kOptions{.max_context = 65,
                                 .max_batch = 3,
                                 .max_tokens = 6,
                                 .coordinator_workspace_bytes = 11,
                                 .process_bytes = 50};

TEST(MemoryPlanTest, CoordinatorAndWorkersByHand) {
  // Rank 1 holds experts 0 1 2, rank 2 holds 3 4, in both MoE layers.
  const ModelShape shape = numbered_shape();
  const auto plan = plan_memory(shape, contiguous_placement(shape, {.num_ranks = 3}), kOptions);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0],
            (RankMemory{.expert_bytes = 0,
                        .weight_bytes = 700,
                        .kv_cache_bytes = 128 * 3 * 8,  // 65 positions take two pages of 64
                        .workspace_bytes = 4 * (3 * 6 * 4 + 6 * 5 + 3 * 10) + 11,
                        .message_bytes = 4 * 4 * (6 * 2 + 6 * 2),  // both workers, two a token
                        .process_bytes = 50}));
  EXPECT_EQ(plan[1], (RankMemory{.expert_bytes = 6 * 1000,
                                 .workspace_bytes = 8 * 3 * (6 * 2),
                                 .message_bytes = 4 * 4 * (6 + 6 * 2),
                                 .process_bytes = 50}));
  EXPECT_EQ(plan[2].expert_bytes, 4 * 1000);
  EXPECT_EQ(plan[0].total_bytes(), 700 + 3072 + 539 + 384 + 50);
}

TEST(MemoryPlanTest, RankAloneSendsNothing) {
  const ModelShape shape = numbered_shape();
  const auto plan = plan_memory(shape, contiguous_placement(shape, {.num_ranks = 1}), kOptions);
  EXPECT_EQ(plan[0].expert_bytes, 10 * 1000);
  EXPECT_EQ(plan[0].message_bytes, 0);
  // Its own slots' products and results: P = 6 * 2 pairs.
  EXPECT_EQ(plan[0].workspace_bytes, 539 + 8 * 3 * 12 + 4 * 4 * 12);
}

TEST(MemoryPlanTest, RankWithOneSlotALayerGetsOnePairAToken) {
  const ModelShape shape = numbered_shape();
  const auto plan = plan_memory(shape, contiguous_placement(shape, {.num_ranks = 6}), kOptions);
  EXPECT_EQ(plan[5].expert_bytes, 2000);
  EXPECT_EQ(plan[5].workspace_bytes, 8 * 3 * 6);
  EXPECT_EQ(plan[5].message_bytes, 4 * 4 * (6 + 6));
}

TEST(MemoryPlanTest, RankWithoutExpertsNeedsOnlyItsProcess) {
  const ModelShape shape = numbered_shape();
  const auto plan = plan_memory(shape, contiguous_placement(shape, {.num_ranks = 7}), kOptions);
  EXPECT_EQ(plan[6], (RankMemory{.process_bytes = 50}));
}

TEST(MemoryPlanTest, SizesPast64BitsAreWrongInput) {
  const ModelShape shape = numbered_shape();
  const Placement placement = contiguous_placement(shape, {.num_ranks = 1});
  MemoryPlanOptions options = kOptions;
  options.max_context = INT64_MAX;
  EXPECT_ERROR(plan_memory(shape, placement, options), kInput, "passes 2^63 bytes");
  options.max_context = INT64_MAX / 25;  // KV cache fits, with the rest it does not
  options.max_batch = 1;
  options.coordinator_workspace_bytes = INT64_MAX - 5000;
  EXPECT_ERROR(plan_memory(shape, placement, options), kInput, "passes 2^63 bytes");
  options.max_context = -1;
  EXPECT_ERROR(plan_memory(shape, placement, options), kInput, "max_context is -1");
}

TEST(MemoryPlanTest, EnoughIsEnoughToTheByte) {
  std::vector<RankMemory> plan(2);
  plan[0].weight_bytes = 70;
  plan[1].expert_bytes = 30;
  check_memory(plan, std::vector<NodeMemory>{{"here", 100}});
  EXPECT_ERROR(check_memory(plan, std::vector<NodeMemory>{{"here", 99}}), kEnvironment,
               "not enough memory on here: its ranks need 100 B, available are 99 B; rank 0 needs "
               "most, 70 B, of which weights 70 B");
}

TEST(MemoryPlanTest, EachNodeIsHeldAgainstItsOwnRanks) {
  std::vector<RankMemory> plan(3);
  plan[0] = {.node = 0, .weight_bytes = 50};
  plan[1] = {.node = 1, .expert_bytes = 50};
  plan[2] = {.node = 1, .expert_bytes = 51};
  check_memory(plan, std::vector<NodeMemory>{{"a", 50}, {"b", 101}});
  EXPECT_ERROR(check_memory(plan, std::vector<NodeMemory>{{"a", 1000}, {"b", 100}}), kEnvironment,
               "not enough memory on b: its ranks need 101 B, available are 100 B; rank 2");
}

TEST(SlotCapacityTest, WorkersShareWhatTheFixedNeedsLeave) {
  const ModelShape shape = numbered_shape();
  // Fixed, were all experts on the rank: coordinator 700 + 3072 + (539 + 288 + 192) + 384 + 50
  // = 5225; each worker 288 + 288 + 50 = 626. In all 5225 + 2 * 626 = 6477.
  const auto slots = [&](int64_t bytes, int coordinator_experts) {
    return slot_capacities(shape, coordinator_experts, kOptions,
                           std::vector<NodeMemory>{{"here", bytes}}, 3);
  };
  EXPECT_EQ(slots(6477 + 5000, 0), (std::vector<int64_t>{0, 3, 2}));
  EXPECT_EQ(slots(6477 + 4999, 0), (std::vector<int64_t>{0, 2, 2}));
  EXPECT_EQ(slots(6477 + 5000, 1), (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(slots(100, 0), (std::vector<int64_t>{0, 0, 0}));
}

TEST(SlotCapacityTest, CoordinatorAloneOnItsNodeMayHoldExperts) {
  const ModelShape shape = numbered_shape();
  MemoryPlanOptions options = kOptions;
  options.node_of_rank = {0, 1, 1};
  const auto slots =
      slot_capacities(shape, 0, options, std::vector<NodeMemory>{{"a", 100000}, {"b", 4000}}, 3);
  EXPECT_EQ(slots, (std::vector<int64_t>{94, 1, 1}));  // (100000 - 5225) / 1000, 2748 / 1000
}

TEST(SlotCapacityTest, CapacitiesLeadToAPlanThatFits) {
  const ModelShape shape = numbered_shape();
  const std::vector<NodeMemory> nodes{{"a", 10900}, {"b", 6700}};
  MemoryPlanOptions options = kOptions;
  options.node_of_rank = {0, 0, 1, 1};
  const PlacementOptions wanted{.num_ranks = 4,
                                .capacity_slots = slot_capacities(shape, 0, options, nodes, 4)};
  const Placement placement = contiguous_placement(shape, wanted);
  check_memory(plan_memory(shape, placement, options), nodes);
}

TEST(MemoryTableTest, OneLineARankAndOneANode) {
  std::vector<RankMemory> plan(2);
  plan[0] = {.weight_bytes = 1500, .kv_cache_bytes = 2'000'000, .workspace_bytes = 12};
  plan[1] = {.expert_bytes = 123'400'000'000, .message_bytes = 7};
  EXPECT_EQ(
      memory_table(plan, std::vector<NodeMemory>{{"here", 99'000'000'000}}),
      "memory      experts    weights   kv cache  workspace   messages    process      total\n"
      "rank 0          0 B    1.50 KB    2.00 MB       12 B        0 B        0 B    2.00 MB\n"
      "rank 1       123 GB        0 B        0 B        0 B        7 B        0 B     123 GB\n"
      "here: needs 123 GB of 99.0 GB available\n");
}

}  // namespace
}  // namespace colibri
