#include "topology/simulator.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/topology/machines.h"

namespace colibri {
namespace {

std::vector<int> coordinators_of(int num_ranks, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i * num_ranks / count);
  return ranks;
}

struct Case {
  ModelShape shape = round_shape();
  RankMap ranks;
  Placement placement;
  SimulatorInput input;

  Case(const Cluster& cluster, int num_ranks, int num_coordinators, StepSize size)
      : ranks(cluster, default_rank_parts(cluster, num_ranks, false),
              coordinators_of(num_ranks, num_coordinators)),
        placement(spread_placement(shape, ranks, false)),
        input{.shape = &shape, .ranks = &ranks, .placement = &placement, .size = size} {}
  Case(const Case&) = delete;
};

double sum_of(const SimulatedStep& s) {
  return s.attention_us + s.own_us + s.dispatch_us + s.wait_us + s.experts_us + s.combine_us +
         s.head_us;
}

// Four tokens that see 100 positions; rank 1 holds all experts. A byte takes 1e-6 us to read, and
// 1e-5 us on a link. Touched: 16 (1 - (7/8)^4) = 6.62109 experts of 6 MB.
TEST(SimulatorTest, OneCoordinatorAndOneWorkerTakeTheSumOfTheirParts) {
  const Case c(switched_machine(1, 2, round_device()), 2, 1, decode_size(4, 99));
  const SimulatedStep step = simulate_step(c.input);
  EXPECT_NEAR(step.dense_us, 2 * 12, 1e-6);
  EXPECT_NEAR(step.context_us, 2 * 10.8, 1e-6);
  EXPECT_NEAR(step.attention_us, 2 * (12 + 10.8 + 10 + 4 * 4 * (12 * 1000 + 16) * 1e-6), 1e-6);
  EXPECT_NEAR(step.dispatch_us, 2 * (5 + 1 + 2 + 0.08), 1e-6);
  EXPECT_NEAR(step.experts_us, 2 * (10 + 6.62109375 * 6), 1e-6);
  EXPECT_NEAR(step.combine_us, 2 * (5 + 1 + 2 + 0.16), 1e-6);
  EXPECT_NEAR(step.head_us, 16, 1e-6);
  EXPECT_EQ(step.own_us, 0);  // the shared expert's 12 us pass under the rest
  EXPECT_NEAR(step.step_us, sum_of(step), 1e-6);
  EXPECT_EQ(step.bottleneck(), "experts on rank 1");
  EXPECT_NEAR(step.tokens_per_s(c.input), 4e6 / step.step_us, 1e-6);
}

// Half as many touched experts in one layer take half the reading; no more than all can be touched.
TEST(SimulatorTest, CountedTouchedExpertsTakeThePlaceOfExpectedOnes) {
  Case c(switched_machine(1, 2, round_device()), 2, 1, decode_size(4, 99));
  c.input.touched_factor = {0.5, 1};
  EXPECT_NEAR(simulate_step(c.input).experts_us, 2 * 10 + 1.5 * 6.62109375 * 6, 1e-6);
  c.input.touched_factor = {100, 100};
  EXPECT_NEAR(simulate_step(c.input).experts_us, 2 * (10 + 16 * 6), 1e-6);
}

// The weights of a step fill the caches just so: half of each byte is read at twice the rate.
TEST(SimulatorTest, WhatCachesHoldIsReadFaster) {
  DeviceSpec device = round_device();
  device.is_gpu = false;
  for (OpCost& cost : device.wide) cost.cached_gbps = 2 * cost.gbps;
  Cluster cluster{.name = "one CPU", .devices = {device}};
  cluster.parts.push_back({.kind = PartKind::kCpu, .name = "cpu", .package = 0, .device = 0});
  Case c(cluster, 1, 1, decode_size(4, 99));
  const double slow = simulate_step(c.input).experts_us + simulate_step(c.input).own_us;
  cluster.devices[0].cache_bytes = own_step_bytes(c.shape, c.input.size) + 2 * 6.62109375 * 6e6;
  Case half(cluster, 1, 1, decode_size(4, 99));
  const double fast = simulate_step(half.input).experts_us + simulate_step(half.input).own_us;
  EXPECT_NEAR(slow - fast, 2 * (6.62109375 * 6 + 2) * 0.25, 1e-6);
}

// The same on two ranks that both coordinate: 3.31 experts touched on each, 3.0667 rows to each of
// which half travel; the shared expert (12 us) outlasts the dispatch.
TEST(SimulatorTest, SymmetricRanksShareTokensAndExperts) {
  const Case c(switched_machine(1, 2, round_device()), 2, 2, decode_size(2, 99));
  const SimulatedStep step = simulate_step(c.input);
  EXPECT_NEAR(step.context_us, 2 * 10.4, 1e-6);
  EXPECT_NEAR(step.dispatch_us, 2 * (8 + 0.030667), 1e-4);
  EXPECT_NEAR(step.own_us, 2 * (12 - 8.030667), 1e-4);
  EXPECT_NEAR(step.experts_us, 2 * (10 + 3.310547 * 6), 1e-4);
  EXPECT_NEAR(step.combine_us, 2 * (8 + 0.04), 1e-6);
  EXPECT_NEAR(step.start_us, 2 * 2 * 8, 1e-6);
  EXPECT_NEAR(step.step_us, sum_of(step), 1e-6);
}

// Counts take 20 us, and 2 us of the way, before each of two dispatches.
TEST(SimulatorTest, CountsOverTheHostComeBeforeEachDispatch) {
  DeviceSpec device = round_device();
  device.counts_us = 20;
  Case c(switched_machine(1, 2, device), 2, 1, decode_size(4, 99));
  const SimulatedStep known = simulate_step(c.input);
  c.input.exchange = ExchangeMode::kHostCounts;
  const SimulatedStep step = simulate_step(c.input);
  EXPECT_NEAR(step.dispatch_us, known.dispatch_us + 2 * (20 + 2), 1e-6);
  EXPECT_NEAR(step.step_us, known.step_us + 2 * (20 + 2), 1e-6);
  EXPECT_NEAR(step.start_us, known.start_us + 2 * (20 + 2), 1e-6);
  EXPECT_EQ(step.row_bytes, known.row_bytes);
}

// Two layers, three other ranks: 64 rows of 2000 bytes to each, and room for results of 2000 bytes:
// of 128 that could come the fullest rank has 6 / 16, 12 of 32 parts; half as much again and one,
// even: 20 parts, 80 results.
TEST(SimulatorTest, MessagesOfFixedSizeCarryTheirRoom) {
  Case c(switched_machine(1, 4, round_device()), 4, 1, decode_size(64, 99));
  const Placement even(c.shape, 4,
                       {{{}, {0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}},
                        {{}, {0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}}});
  c.input.placement = &even;
  const SimulatedStep known = simulate_step(c.input);
  c.input.exchange = ExchangeMode::kFixedSize;
  const SimulatedStep step = simulate_step(c.input);
  EXPECT_NEAR(step.row_bytes, 2 * 3 * 64 * 2000, 1e-6);
  EXPECT_NEAR(step.result_bytes, 2 * 3 * 80 * 2000, 1e-6);
  EXPECT_EQ(step.experts_us, known.experts_us);
  EXPECT_GT(step.dispatch_us, known.dispatch_us);
}

// Alike ranks: each sends 64 rows to each of two, one of which is itself.
TEST(SimulatorTest, SymmetricRanksHaveExchangeModesToo) {
  DeviceSpec device = round_device();
  device.counts_us = 20;
  Case c(switched_machine(1, 2, device), 2, 2, decode_size(64, 99));
  const SimulatedStep known = simulate_step(c.input);
  c.input.exchange = ExchangeMode::kFixedSize;
  EXPECT_NEAR(simulate_step(c.input).row_bytes, 2 * 2 * 64 * 2000, 1e-6);
  c.input.exchange = ExchangeMode::kHostCounts;
  EXPECT_NEAR(simulate_step(c.input).dispatch_us, known.dispatch_us + 2 * (20 + 2), 1e-6);
}

TEST(SimulatorTest, OneRankSendsNothing) {
  const Case c(switched_machine(1, 1, round_device()), 1, 1, decode_size(4, 99));
  const SimulatedStep step = simulate_step(c.input);
  EXPECT_EQ(step.dispatch_us, 0);
  EXPECT_EQ(step.busiest_link, "");
  EXPECT_NEAR(step.own_us, 2 * (12 + 10 + 6.62109375 * 6), 1e-6);
}

// All 300 tokens want all three workers: 900 rows of 200 us leave by one link. Between GPUs they
// arrive together.
TEST(SimulatorTest, MessagesQueueAtASharedLink) {
  DeviceSpec device = round_device();
  device.exchange_us = device.exchange_us_per_peer = 0;
  Cluster cluster = switched_machine(1, 4, device);
  for (ClusterLink& link : cluster.links) link.gbps = 0.01;
  Case c(cluster, 4, 1, decode_size(300, 1));
  c.shape.top_k = 16;
  const SimulatedStep step = simulate_step(c.input);
  EXPECT_NEAR(step.dispatch_us, 2 * (900 * 200 + 2), 1);
  EXPECT_EQ(step.busiest_link, "node0.switch > node0.gpu0 (nvlink)");
  EXPECT_EQ(step.bottleneck(), "link " + step.busiest_link);
}

TEST(SimulatorTest, AWorkerServesCoordinatorsInOrderOfArrival) {
  const Case c(switched_machine(1, 3, round_device()), 3, 2, decode_size(2, 99));
  const SimulatedStep step = simulate_step(c.input);
  EXPECT_GT(step.wait_us, 0);
  EXPECT_NEAR(step.step_us, sum_of(step), 1e-6);
  EXPECT_EQ(simulate_step(c.input).step_us, step.step_us);
  EXPECT_EQ(step.busiest_rank, 2);
}

// 32 experts of 6 MB on rank 1; on rank 0 the weights (none here) and 100 positions of 4 kB.
TEST(SimulatorTest, MemoryCountsExpertsCacheAndWhatAGpuNeedsBesides) {
  Case c(switched_machine(1, 2, round_device()), 2, 1, decode_size(1, 99));
  const MemoryGap workers = largest_gap(c.input, 100);
  EXPECT_EQ(workers.rank, 1);
  EXPECT_DOUBLE_EQ(workers.need_bytes, 4e9 + 342e6 + 32 * 6e6);
  EXPECT_DOUBLE_EQ(workers.missing(), workers.need_bytes - 1e9);
  EXPECT_DOUBLE_EQ(largest_gap(c.input, 1e6).need_bytes, 4e9 + 342e6 + 4e9);
}

TEST(SimulatorTest, APlacementForOtherRanksIsRefused) {
  const Case two(switched_machine(1, 2, round_device()), 2, 1, decode_size(1, 1));
  Case three(switched_machine(1, 3, round_device()), 3, 1, decode_size(1, 1));
  three.input.placement = &two.placement;
  EXPECT_THROW(simulate_step(three.input), Error);
}

TEST(SimulatorTest, BetweenManyNodesTheNetworkIsTheLimit) {
  const Case c(switched_machine(18, 8, round_device()), 144, 144, decode_size(64, 999));
  EXPECT_NE(simulate_step(c.input).busiest_link.find("(ib)"), std::string::npos);
}

}  // namespace
}  // namespace colibri
