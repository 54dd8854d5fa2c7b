#include "topology/simulator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/topology/machines.h"

namespace colibri {
namespace {

struct Case {
  Cluster cluster;
  ModelShape shape = round_shape();
  StepRanks ranks;
  Placement placement;
  StepRun run;

  Case(const Cluster& machine, int num_ranks, int num_coordinators, StepSize step)
      : cluster(machine),
        ranks(step_ranks(cluster, default_rank_parts(cluster, num_ranks, false), num_coordinators)),
        placement(spread_placement(shape, ranks, false)),
        run{.shape = shape,
            .ranks = ranks,
            .placement = placement,
            .step = step,
            .formats = step_formats(shape, true)} {}
  Case(const Case&) = delete;
};

// Four tokens at 100 positions; rank 1 holds all experts. A byte takes 1e-6 us to read, and 1e-5 us
// on a link. Touched: 16 (1 - (7/8)^4) = 6.62109 experts of 6 MB.
TEST(SimulatorTest, OneCoordinatorAndOneWorkerTakeTheSumOfTheirParts) {
  const Case c(switched_machine(1, 2, round_device()), 2, 1, decode_step(4, 100));
  const SimulatedStep step = simulate_step(c.run);
  EXPECT_NEAR(step.us(StepStage::kDense), 2 * 12, 1e-6);
  EXPECT_NEAR(step.us(StepStage::kAttention), 2 * 10.8, 1e-6);
  EXPECT_NEAR(step.us(StepStage::kElementwise), 2 * 10.096, 1e-6);
  EXPECT_NEAR(step.us(StepStage::kDispatch), 2 * (5 + 1 + 2 + 0.08), 1e-6);
  EXPECT_NEAR(step.us(StepStage::kExperts), 2 * (10 + 6.62109375 * 6), 1e-6);
  EXPECT_NEAR(step.us(StepStage::kCombine), 2 * (5 + 1 + 2 + 0.16 + 10.016), 1e-6);
  EXPECT_NEAR(step.us(StepStage::kHead), 16, 1e-6);
  EXPECT_NEAR(step.us(StepStage::kPicking), 10.048, 1e-6);
  EXPECT_NEAR(step.total_us, std::accumulate(step.stage_us.begin(), step.stage_us.end(), 0.0),
              1e-6);
  EXPECT_EQ(step.bottleneck, "experts on node0.gpu1: reading memory");
}

// The same on two ranks that both coordinate: 3.31 experts touched on each, 3.0667 rows to each of
// which half travel; the shared expert (12 us) outlasts the dispatch.
TEST(SimulatorTest, SymmetricRanksShareTokensAndExperts) {
  const Case c(switched_machine(1, 2, round_device()), 2, 0, decode_step(4, 100));
  const SimulatedStep step = simulate_step(c.run);
  EXPECT_NEAR(step.us(StepStage::kAttention), 2 * 10.4, 1e-6);
  EXPECT_NEAR(step.us(StepStage::kDispatch), 2 * (8 + 0.030667), 1e-4);
  EXPECT_NEAR(step.us(StepStage::kOwnExperts), 2 * (12 - 8.030667), 1e-4);
  EXPECT_NEAR(step.us(StepStage::kExperts), 2 * (10 + 3.310547 * 6), 1e-4);
  EXPECT_NEAR(step.us(StepStage::kCombine), 2 * (8 + 0.04 + 10.008), 1e-6);
}

TEST(SimulatorTest, OneRankSendsNothing) {
  const Case c(switched_machine(1, 1, round_device()), 1, 1, decode_step(4, 100));
  const SimulatedStep step = simulate_step(c.run);
  EXPECT_EQ(step.us(StepStage::kDispatch), 0);
  EXPECT_EQ(step.busiest_link, "");
  EXPECT_GT(step.us(StepStage::kExperts), 0);
}

// All 300 tokens want all three workers: 900 rows of 200 us leave by one link, the last third
// passes the second link as it comes.
TEST(SimulatorTest, MessagesQueueAtASharedLink) {
  DeviceSpec device = round_device();
  device.exchange_us = device.exchange_us_per_peer = 0;
  Cluster cluster = switched_machine(1, 4, device);
  for (ClusterLink& link : cluster.links) link.gbps = 0.01;
  Case c(cluster, 4, 1, decode_step(300, 1));
  c.shape.top_k = 16;
  const SimulatedStep step = simulate_step(c.run);
  EXPECT_NEAR(step.us(StepStage::kDispatch), 2 * (900 * 200 + 2), 1e-3);
  EXPECT_EQ(step.busiest_link, "node0.switch > node0.gpu0 (nvlink)");
}

TEST(SimulatorTest, AWorkerServesCoordinatorsInOrderOfArrival) {
  const Case c(switched_machine(1, 3, round_device()), 3, 2, decode_step(4, 100));
  EXPECT_EQ(c.ranks.coordinators, (std::vector<int>{0, 1}));
  const SimulatedStep step = simulate_step(c.run);
  EXPECT_GT(step.us(StepStage::kQueue), 0);
  EXPECT_NEAR(step.total_us, std::accumulate(step.stage_us.begin(), step.stage_us.end(), 0.0),
              1e-6);
  EXPECT_EQ(simulate_step(c.run).total_us, step.total_us);
}

TEST(SimulatorTest, AFasterLinkShortensTheStepOnlyWhereItIsUsed) {
  const Case one(switched_machine(2, 2, round_device()), 2, 1, decode_step(64, 1));
  ASSERT_EQ(link_sensitivity(one.run).size(), 1u);  // ranks of one node: NVLink alone
  const Case two(switched_machine(2, 2, round_device()), 4, 1, decode_step(64, 1));
  for (const StepChange& change : link_sensitivity(two.run)) {
    EXPECT_LE(change.change, 0) << change.what;
    EXPECT_GT(change.change, -0.5) << change.what;
  }
}

// 16 experts of 6 MB in two layers on rank 1, 0.4 MB of cache on rank 0, beside 4.342 GB each.
TEST(SimulatorTest, MemoryCountsExpertsWeightsAndCache) {
  Case c(switched_machine(1, 2, round_device()), 2, 1, decode_step(1, 100));
  const std::vector<PartMemory> parts = step_memory(c.run);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_DOUBLE_EQ(parts[1].need_bytes, 4e9 + 342e6 + 2 * 16 * 6e6);
  EXPECT_DOUBLE_EQ(parts[0].need_bytes, 4e9 + 342e6 + 100 * 4000);
  EXPECT_FALSE(parts[0].fits());
}

TEST(SimulatorTest, HundredsOfRanksRunSymmetrically) {
  const Case c(switched_machine(18, 8, round_device()), 144, 0, decode_step(144 * 64, 1000));
  EXPECT_NE(simulate_step(c.run).busiest_link.find("(ib)"), std::string::npos);
}

}  // namespace
}  // namespace colibri
