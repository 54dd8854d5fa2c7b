#include "topology/step_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "tests/topology/machines.h"
#include "topology/cluster_file.h"
#include "topology/layer_figures.h"
#include "topology/placement.h"
#include "topology/rank_map.h"

namespace colibri {
namespace {

double rows_a_token(int num_experts, int top_k, int num_ranks) {
  ModelShape shape = shape_of(num_experts, {true});
  shape.top_k = top_k;
  const Placement placement = contiguous_placement(
      shape, {.num_ranks = num_ranks, .coordinator_experts = num_experts / num_ranks});
  const LayerFigures figures = layer_figures(placement, 0, expert_shares(nullptr, shape, 0), 10);
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
  const LayerFigures figures = layer_figures(placement, 0, std::vector<double>{1, 1, 0, 0}, 2);
  EXPECT_NEAR(figures.pairs[0], 3, 1e-9);
  EXPECT_NEAR(figures.pairs[1], 1, 1e-9);
  EXPECT_NEAR(figures.touched[0], 1.75, 1e-9);  // 1 + 1 - (1/2)^2
  EXPECT_NEAR(figures.touched[1], 0.75, 1e-9);
  EXPECT_NEAR(figures.rows[0], 2, 1e-4);
}

TEST(StepWorkTest, ADecodeStepReadsWeightsOnceAndEachCacheOnce) {
  const ModelShape shape = round_shape();
  const StepWork work = step_work(shape, decode_size(5, 99));
  const OpWork& dense = work[static_cast<size_t>(OpKind::kDense)];
  EXPECT_DOUBLE_EQ(dense.bytes, 8e6 / 2);
  EXPECT_DOUBLE_EQ(dense.operations, 2 * 5 * 4e6 / 2);
  const OpWork& attention = work[static_cast<size_t>(OpKind::kAttention)];
  EXPECT_DOUBLE_EQ(attention.bytes, 5 * 100 * 4000 / 2);
  EXPECT_DOUBLE_EQ(attention.operations, 2 * 5 * 100 * 2000 / 2);
  EXPECT_DOUBLE_EQ(attention.pieces, 5 * 4);        // heads
  EXPECT_DOUBLE_EQ(attention.values, 5 * 100 * 4);  // scores
}

// Two products a token: 2 x 1000 numbers go in and 2e6 / 1000 come out.
TEST(StepWorkTest, WhatGoesInAndOutOfProductsGrowsWithTokens) {
  const StepWork work = step_work(round_shape(), decode_size(5, 99));
  EXPECT_DOUBLE_EQ(work[static_cast<size_t>(OpKind::kDense)].values, 5 * (2000 + 2000));
  EXPECT_DOUBLE_EQ(work[static_cast<size_t>(OpKind::kHead)].values, 5 * (3000 + 1000));
  EXPECT_DOUBLE_EQ(expert_work(round_shape(), 3, 7).values, 7 * (2 * 1000 + 3 * 1000));
  EXPECT_DOUBLE_EQ(expert_work(round_shape(), 3, 7).pieces, 3);
}

// 8 MB in a cache of 8 MB: half comes from there, 0.5 / 2 + 0.5 / 1 = 0.75 us a kilobyte.
TEST(StepWorkTest, WhatFillsTheCacheIsHalfReadFromIt) {
  DeviceSpec device = round_device();
  EXPECT_EQ(device.cached_share(1), 0);
  device.cache_bytes = 8e6;
  EXPECT_DOUBLE_EQ(device.cached_share(8e6), 0.5);
  EXPECT_LT(device.cached_share(80e6), 0.001);
  const OpCost cost{.gbps = 1, .cached_gbps = 2};
  EXPECT_DOUBLE_EQ(cost.us({.bytes = 1000}, 0.5), 0.75);
}

TEST(StepWorkTest, RanksOfAPackageFillItsCacheTogether) {
  DeviceSpec device = round_device();
  device.is_gpu = false;
  device.cache_bytes = 8e6;
  Cluster cluster{.name = "one package", .devices = {device}};
  for (const char* name : {"a", "b"}) {
    cluster.parts.push_back(
        {.kind = PartKind::kCpu, .name = name, .package = 0, .numa_node = 0, .device = 0});
  }
  cluster.links.push_back({0, 1, "link", 10, 0});
  const RankMap ranks(cluster, {0, 1}, {0});
  const std::vector<double> bytes{6e6, 2e6};
  EXPECT_EQ(ranks.cached_shares(bytes), (std::vector<double>{0.5, 0.5}));
}

// 8 MB of weights in two layers, 2 MB of each the shared expert's: 2 MB are left at 1000 GB/s.
TEST(StepWorkTest, TheSharedExpertStandsApart) {
  const OwnTimes own = own_times(round_shape(), decode_size(1, 0), round_device());
  EXPECT_NEAR(own.dense_us, 10 + 2, 1e-9);
  EXPECT_NEAR(own.shared_us, 10 + 2, 1e-9);
}

TEST(StepWorkTest, WhatThereIsNothingOfTakesNoTime) {
  ModelShape shape = round_shape();
  shape.shared_bytes = shape.shared_macs = 0;
  StepSize size = prefill_size(4);
  size.num_logit_rows = 0;
  const OwnTimes own = own_times(shape, size, round_device());
  EXPECT_EQ(own.shared_us, 0);
  EXPECT_EQ(own.head_us, 0);
}

TEST(StepWorkTest, NarrowExpertsSendRowsOfInt8) {
  ModelShape shape = round_shape();
  EXPECT_DOUBLE_EQ(row_bytes(shape, true), 2000);
  EXPECT_DOUBLE_EQ(row_bytes(shape, false), 4000);
  shape.expert_bytes = shape.expert_macs() * 17 / 16;
  EXPECT_DOUBLE_EQ(row_bytes(shape, true), 1125);
  EXPECT_DOUBLE_EQ(result_bytes(shape, true), 2000);
}

RankMap map_of(const Cluster& cluster, int num_ranks, std::vector<int> coordinators) {
  return RankMap(cluster, default_rank_parts(cluster, num_ranks, false), std::move(coordinators));
}

// Three of four ranks hold 16 experts; 30 tokens, two experts each: 20 pairs a rank.
TEST(LayerTermsTest, ExpertTermsMeetTheCurveAtTheEvenSpread) {
  const ModelShape shape = round_shape();
  DeviceSpec device = round_device();
  device.wide.fill({.fixed_us = 10, .gbps = 1000, .gops = 1000, .sharpness = 1.5});
  const RankMap ranks = map_of(switched_machine(1, 4, device), 4, {0});
  const LayerTerms terms = layer_terms(shape, ranks, {.size = decode_size(30, 1)});
  const double touched = 16.0 / 3 * (1 - std::pow(1 - 2.0 / 16, 30)), pairs = 20;
  EXPECT_NEAR(terms.expert_fixed_us[1] + terms.touched_us[1] * touched + terms.row_us[1] * pairs,
              expert_us(shape, device, touched, pairs), 1e-9);
  EXPECT_LE(terms.expert_fixed_us[1] + terms.touched_us[1] * 8 + terms.row_us[1] * 100,
            expert_us(shape, device, 8, 100));
}

const LinkTerm& named(const std::vector<LinkTerm>& terms, const std::string& name) {
  for (const LinkTerm& term : terms) {
    if (term.name == name) return term;
  }
  fail(ErrorKind::kInternal, "no link ", name);
}

// 2000 bytes a row: 0.02 us at 100 GB/s, 0.2 us at 10 GB/s.
TEST(LayerTermsTest, RowsPassTheLinksOfTheirWay) {
  const RankMap ranks = map_of(switched_machine(2, 2, round_device()), 4, {0});
  const LayerTerms terms = link_terms(round_shape(), ranks, {});
  const LinkTerm& out = named(terms.dispatch_links, "node0.gpu0 > node0.switch (nvlink)");
  EXPECT_DOUBLE_EQ(out.row_us[1], 0.02);
  EXPECT_EQ(out.row_us[0], 0);  // its own rows do not travel
  const LinkTerm& wire = named(terms.dispatch_links, "fabric > node1.nic0 (ib)");
  EXPECT_TRUE(wire.crosses_nodes);
  EXPECT_DOUBLE_EQ(wire.row_us[2], 0.2);
  EXPECT_DOUBLE_EQ(named(terms.combine_links, "node1.nic1 > fabric (ib)").result_us[3], 0.2);
  EXPECT_DOUBLE_EQ(ranks.longest_latency_us(), 1 + 2 + 2 + 1);
}

// Two GPUs and two NICs at one PCIe switch: each GPU has a NIC of its own, out and in.
TEST(LayerTermsTest, GpusOfASwitchTakeOneNicEach) {
  const Cluster cluster = parse_cluster(
      "colibri_machine = 1\nname = \"two\"\n[[node]]\ncount = 2\ncpu = \"cpu-server\"\n"
      "cores = 8\nmemory_gb = 64\ngpu = \"h200\"\ngpus = 2\ngpus_per_switch = 2\n"
      "pcie = \"pcie5-x16\"\nnics = 2\nnic = \"ib-400g\"\n",
      "test");
  const RankMap ranks = map_of(cluster, 4, {0, 1, 2, 3});
  const LayerTerms terms = link_terms(round_shape(), ranks, {});
  std::vector<double> nic_us;
  for (const LinkTerm& link : terms.dispatch_links) {
    if (link.name.find("(ib-400g)") == std::string::npos) continue;
    nic_us.push_back(std::accumulate(link.row_us.begin(), link.row_us.end(), 0.0));
  }
  ASSERT_EQ(nic_us.size(), 8u);  // four NICs, both ways
  for (const double us : nic_us) EXPECT_DOUBLE_EQ(us, nic_us[0]);
  EXPECT_TRUE(ranks.crosses_network());
  EXPECT_DOUBLE_EQ(ranks.exchange_us(0, 0, 7, 0),
                   ranks.exchange_us(0) + 7 * (1 + ranks.device(0).exchange_tail / 3));
}

// Two ranks, one of which holds all: 30 rows of 0.02 us, 60 results of as much.
TEST(LayerTermsTest, ExchangeTermsMeetTheCurveAtTheEvenSpread) {
  DeviceSpec device = round_device();
  device.exchange_sharpness = 0.7;
  device.exchange_tail = 0.5;
  const RankMap ranks = map_of(switched_machine(1, 2, device), 2, {0});
  const LayerTerms terms = layer_terms(round_shape(), ranks, {.size = decode_size(30, 1)});
  const double rows = terms.dispatch_links[0].row_us[1] * 30;
  const double results = terms.combine_links[0].result_us[1] * 60;
  EXPECT_NEAR(terms.exchange_us + rows + results,
              ranks.exchange_us(0, 2, 0.6, 0) + ranks.exchange_us(0, 2, 1.2, 0), 1e-9);
  EXPECT_NEAR(ranks.exchange_us(0, 2, 0.6, 0),
              std::pow(std::pow(5 + 1 + 2, 0.7) + std::pow(0.6 * 1.5, 0.7), 1 / 0.7), 1e-9);
}

}  // namespace
}  // namespace colibri
