#include "topology/step_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "tests/topology/machines.h"
#include "tests/topology/shapes.h"
#include "topology/layer_figures.h"
#include "topology/placement.h"

namespace colibri {
namespace {

double rows_a_token(int num_experts, int top_k, int num_ranks) {
  ModelShape shape = shape_of(num_experts, {true});
  shape.top_k = top_k;
  const Placement placement = contiguous_placement(
      shape, {.num_ranks = num_ranks, .coordinator_experts = num_experts / num_ranks});
  const LayerFigures figures =
      layer_figures(placement, 0, expert_shares(nullptr, shape, 0), nullptr, 10);
  return std::accumulate(figures.rows.begin(), figures.rows.end(), 0.0) / 10;
}

// W (1 - C(E - E/W, K) / C(E, K)).
TEST(LayerFiguresTest, EqualSharesGiveTheExactNumberOfRanksAToken) {
  EXPECT_NEAR(rows_a_token(256, 8, 8), 5.29, 0.005);
  EXPECT_NEAR(rows_a_token(256, 8, 16), 6.52, 0.005);
  EXPECT_NEAR(rows_a_token(256, 8, 32), 7.27, 0.005);
  EXPECT_NEAR(rows_a_token(128, 8, 8), 5.34, 0.005);
}

// Experts 0 and 1 are chosen by every token; expert 1 has two slots, on ranks 0 and 1.
TEST(LayerFiguresTest, ReplicasShareAnExpertsTokens) {
  const ModelShape shape = shape_of(4, {true});
  const Placement placement(shape, 2, {{{0, 1}, {1, 2, 3}}});
  const LayerFigures figures =
      layer_figures(placement, 0, std::vector<double>{1, 1, 0, 0}, nullptr, 2);
  EXPECT_NEAR(figures.pairs[0], 3, 1e-9);
  EXPECT_NEAR(figures.pairs[1], 1, 1e-9);
  EXPECT_NEAR(figures.touched[0], 1.75, 1e-9);  // 1 + 1 - (1/2)^2
  EXPECT_NEAR(figures.touched[1], 0.75, 1e-9);
  EXPECT_NEAR(figures.rows[0], 2, 1e-4);
  EXPECT_NEAR(figures.rows[1], 1, 1e-4);
}

// Four experts on two ranks, two a token. Always 0 and 1, or 2 and 3: one rank a token. Always one
// of each rank: two.
TEST(LayerFiguresTest, CountedPairsMoveTheRows) {
  const ModelShape shape = shape_of(4, {true});
  const Placement placement(shape, 2, {{{0, 1}, {2, 3}}});
  LayerLoads loads{.num_tokens = 4, .tokens = {2, 2, 2, 2}, .pairs = std::vector<double>(6, 0)};
  const std::vector<double> shares(4, 0.5);
  const auto rows = [&] {
    const LayerFigures figures = layer_figures(placement, 0, shares, &loads, 1);
    return figures.rows[0] + figures.rows[1];
  };
  EXPECT_NEAR(layer_figures(placement, 0, shares, nullptr, 1).rows[0], 5.0 / 6, 1e-9);
  loads.pairs[pair_index(0, 1)] = loads.pairs[pair_index(2, 3)] = 2;
  EXPECT_NEAR(rows(), 1, 1e-9);
  loads.pairs.assign(6, 1);
  loads.pairs[pair_index(0, 1)] = loads.pairs[pair_index(2, 3)] = 0;
  EXPECT_NEAR(rows(), 2, 1e-9);
}

TEST(StepCostTest, ADecodeStepReadsWeightsOnceAndEachCacheOnce) {
  const ModelShape shape = round_shape();
  const CoordinatorOps ops =
      coordinator_ops(shape, step_formats(shape, true), decode_step(10, 100), 0.5);
  EXPECT_DOUBLE_EQ(ops.dense.bytes, (8e6 - 2 * 2e6) / 2);
  EXPECT_DOUBLE_EQ(ops.dense.operations, 2 * 5 * (4e6 - 2 * 1e6) / 2);
  EXPECT_DOUBLE_EQ(ops.attention.bytes, 5 * 100 * 4000 / 2);
  EXPECT_DOUBLE_EQ(ops.attention.operations, 2 * 5 * 100 * 2000 / 2);
  EXPECT_DOUBLE_EQ(ops.shared.bytes, 2e6);
  EXPECT_DOUBLE_EQ(ops.head.operations, 2 * 5 * 3e6);
}

// The cache of a prompt is read once, though each token computes over all before it.
TEST(StepCostTest, APromptsChunkReadsItsCacheOnceAndNoHead) {
  const ModelShape shape = round_shape();
  const StepSize step = prefill_step(4, 10);
  EXPECT_DOUBLE_EQ(step.positions, 11 + 12 + 13 + 14);
  EXPECT_DOUBLE_EQ(step.kv_reads, 14);
  const CoordinatorOps ops = coordinator_ops(shape, step_formats(shape, true), step, 1);
  EXPECT_EQ(ops.head.us(round_device()), 0);
}

TEST(StepCostTest, NarrowExpertsSendRowsOfInt8) {
  ModelShape shape = round_shape();
  EXPECT_DOUBLE_EQ(step_formats(shape, true).row_bytes, 2000);
  EXPECT_DOUBLE_EQ(step_formats(shape, false).row_bytes, 4000);
  shape.expert_bytes = shape.expert_macs() * 17 / 16;
  EXPECT_DOUBLE_EQ(step_formats(shape, true).row_bytes, 1125);
  EXPECT_DOUBLE_EQ(step_formats(shape, true).result_bytes, 2000);
}

// Two of four ranks hold 8 experts each; 32 tokens, two experts each: 32 pairs a rank.
TEST(StepCostTest, ExpertTermsMeetTheCurveAtTheMeanRank) {
  const ModelShape shape = round_shape();
  DeviceSpec device = round_device();
  device.wide.fill({.fixed_us = 10, .gbps = 1000, .gops = 100'000, .sharpness = 1.5});
  const Cluster cluster = switched_machine(1, 4, device);
  const StepRanks ranks = step_ranks(cluster, default_rank_parts(cluster, 4, false), 2);
  EXPECT_EQ(ranks.coordinators, (std::vector<int>{0, 2}));
  const StepFormats formats = step_formats(shape, true);
  const LayerTerms terms = layer_terms(shape, formats, decode_step(32, 1), ranks);
  const double touched = 8 * (1 - std::pow(1 - 2.0 / 16, 32)), pairs = 32;
  const double line =
      terms.expert_fixed_us[1] + terms.touched_us[1] * touched + terms.row_us[1] * pairs;
  EXPECT_NEAR(line, expert_op(shape, formats, touched, pairs).us(device), 1e-9);
  EXPECT_LE(terms.expert_fixed_us[1] + terms.touched_us[1] * 8 + terms.row_us[1] * 500,
            expert_op(shape, formats, 8, 500).us(device));
}

const LinkTerm& named(const std::vector<LinkTerm>& terms, const std::string& name) {
  for (const LinkTerm& term : terms) {
    if (term.name == name) return term;
  }
  fail(ErrorKind::kInternal, "no link ", name);
}

// 2000 bytes a row: 0.02 us at 100 GB/s, 0.2 us at 10 GB/s.
TEST(StepCostTest, RowsPassTheLinksOfTheirWay) {
  const ModelShape shape = round_shape();
  const Cluster cluster = switched_machine(2, 2, round_device());
  const StepRanks ranks = step_ranks(cluster, default_rank_parts(cluster, 4, false), 1);
  const LayerTerms terms = layer_terms(shape, step_formats(shape, true), decode_step(8, 1), ranks);
  const LinkTerm& out = named(terms.dispatch_links, "node0.gpu0 > node0.switch (nvlink)");
  EXPECT_DOUBLE_EQ(out.row_us[1], 0.02);
  EXPECT_EQ(out.row_us[0], 0);  // its own rows do not travel
  const LinkTerm& wire = named(terms.dispatch_links, "fabric > node1.nic0 (ib)");
  EXPECT_TRUE(wire.crosses_nodes);
  EXPECT_DOUBLE_EQ(wire.row_us[2], 0.2);
  EXPECT_DOUBLE_EQ(named(terms.combine_links, "node1.nic1 > fabric (ib)").result_us[3], 0.2);
  // 5 us, 3 peers and the way through two NICs, twice.
  EXPECT_DOUBLE_EQ(terms.exchange_us, 2 * (5 + 3 + 1 + 2 + 2 + 1));
}

TEST(StepCostTest, MoreCoordinatorsThanRanksAreRefused) {
  const Cluster cluster = switched_machine(1, 2, round_device());
  EXPECT_THROW(step_ranks(cluster, {1, 2}, 3), Error);
  EXPECT_TRUE(step_ranks(cluster, {1, 2}, 0).is_symmetric());
}

}  // namespace
}  // namespace colibri
