#include "topology/planner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "tests/topology/eplb.h"
#include "topology/replan.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

ModelShape shape_with(int layers, int experts, int top_k) {
  ModelShape shape;
  shape.family = "made_up";
  shape.fingerprint = "0123456789abcdef";
  shape.num_layers = layers;
  shape.hidden_size = 64;
  shape.expert_width = 32;
  shape.num_experts = experts;
  shape.top_k = top_k;
  shape.expert_bytes = 3 * 64 * 32;
  shape.layer_is_moe.assign(static_cast<size_t>(layers), true);
  return shape;
}

// Time is the load: a microsecond for each expected pair of one token.
LayerTerms load_terms(int ranks) {
  LayerTerms terms;
  terms.num_tokens = 1;
  terms.expert_fixed_us.assign(static_cast<size_t>(ranks), 0);
  terms.touched_us = terms.expert_fixed_us;
  terms.row_us.assign(static_cast<size_t>(ranks), 1);
  return terms;
}

// A coordinator on rank 0; ranks from `far` on lie behind a slow link.
LayerTerms linked_terms(int ranks, int far, double us_per_row) {
  LayerTerms terms = load_terms(ranks);
  LinkTerm link{.name = "upi",
                .crosses_packages = true,
                .row_us = std::vector<double>(static_cast<size_t>(ranks)),
                .result_us = std::vector<double>(static_cast<size_t>(ranks))};
  for (int rank = far; rank < ranks; ++rank) {
    link.row_us[static_cast<size_t>(rank)] = us_per_row;
    link.result_us[static_cast<size_t>(rank)] = us_per_row;
  }
  terms.dispatch_links = terms.combine_links = {link};
  return terms;
}

TEST(Planner, TwoHotExpertsComeToDifferentRanks) {
  const ModelShape shape = shape_with(1, 4, 2);
  const LayerTerms terms = load_terms(2);
  const Plan plan = plan_placement({.shape = &shape,
                                    .terms = &terms,
                                    .shares = {{0.9, 0.8, 0.2, 0.1}},
                                    .rank0_holds_experts = true,
                                    .ignores_links = true});
  // 0.9 + 0.1 and 0.8 + 0.2.
  EXPECT_DOUBLE_EQ(plan.expert_us, 1.0);
  EXPECT_DOUBLE_EQ(plan.gap(), 0);
}

TEST(Planner, AReplicaHalvesTheHottestExpert) {
  const ModelShape shape = shape_with(1, 4, 2);
  const LayerTerms terms = load_terms(2);
  const Plan plan = plan_placement({.shape = &shape,
                                    .terms = &terms,
                                    .shares = {{1.0, 0.4, 0.3, 0.3}},
                                    .num_replicas = 1,
                                    .rank0_holds_experts = true,
                                    .ignores_links = true});
  EXPECT_EQ(plan.placement.slots_of(0, 0).size(), 2u);
  EXPECT_DOUBLE_EQ(plan.expert_us, 1.1);  // 0.5 + 0.6 and 0.5 + 0.4: nothing else is better
}

TEST(Planner, RankZeroHoldsNoneUnlessItIsAskedTo) {
  const ModelShape shape = shape_with(1, 4, 2);
  const LayerTerms terms = load_terms(3);
  PlanRequest request{.shape = &shape, .terms = &terms, .shares = uniform_shares(shape)};
  EXPECT_EQ(plan_placement(request).placement.num_slots(0), 0);
  request.rank0_holds_experts = true;
  EXPECT_GT(plan_placement(request).placement.num_slots(0), 0);
}

TEST(Planner, WhatDoesNotFitIsNamedWithItsBytes) {
  const ModelShape shape = shape_with(2, 8, 2);
  const LayerTerms terms = load_terms(3);
  const PlanRequest request{.shape = &shape,
                            .terms = &terms,
                            .shares = uniform_shares(shape),
                            .capacity_slots = {0, 6, 6}};
  try {
    plan_placement(request);
    FAIL() << "12 slots held 16 experts";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("4 slots of 6.14 KB are missing"), std::string::npos)
        << error.what();
  }
}

TEST(Planner, HotExpertsLieNearTheCoordinatorWhenTheLinkIsSlow) {
  const ModelShape shape = shape_with(1, 16, 2);
  const auto shares = zipf_shares(shape, 0.9, 3);
  const LayerTerms terms = linked_terms(5, 3, 2.0);
  PlanRequest request{.shape = &shape, .terms = &terms, .shares = shares};
  const Plan with_links = plan_placement(request);
  request.ignores_links = true;
  const Plan without = plan_placement(request);
  request.ignores_links = false;
  const double blind = cost_of(request, without.placement).total_us;
  EXPECT_LT(with_links.predicted_us, 0.9 * blind);
}

TEST(Planner, APlanWithoutChangeMovesNothing) {
  const ModelShape shape = shape_with(3, 32, 4);
  const auto shares = zipf_shares(shape, 0.8, 5);
  const LayerTerms terms = load_terms(5);
  PlanRequest request{.shape = &shape, .terms = &terms, .shares = shares, .num_replicas = 4};
  const Plan first = plan_placement(request);
  request.previous = &first.placement;
  const Plan again = plan_placement(request);
  EXPECT_EQ(again.num_moves, 0);
  EXPECT_EQ(again.placement, first.placement);
}

TEST(Planner, NoMoreSlotsMoveThanAllowed) {
  const ModelShape shape = shape_with(3, 32, 4);
  const LayerTerms terms = load_terms(5);
  PlanRequest request{.shape = &shape, .terms = &terms, .shares = zipf_shares(shape, 0.8, 5)};
  const Plan first = plan_placement(request);
  request.shares = zipf_shares(shape, 0.8, 6);
  request.previous = &first.placement;
  request.max_moves = 4;
  const Plan next = plan_placement(request);
  EXPECT_LE(next.num_moves, 4);
  EXPECT_GT(next.num_moves, 0);
  int64_t moved = 0;
  for (const int64_t slots : slots_to_load(first.placement, next.placement)) moved += slots;
  EXPECT_EQ(moved, next.num_moves);
}

TEST(Planner, TheBoundIsNoMoreThanTheBestOfAllPlacements) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const ModelShape shape = shape_with(1, 6 + static_cast<int>(seed % 3), 2);
    const LayerTerms terms = load_terms(2 + static_cast<int>(seed % 3));
    const Plan plan = plan_placement({.shape = &shape,
                                      .terms = &terms,
                                      .shares = zipf_shares(shape, 0.7, seed),
                                      .num_replicas = static_cast<int>(seed % 2),
                                      .rank0_holds_experts = true,
                                      .ignores_links = true});
    EXPECT_GE(plan.gap(), -1e-12) << seed;
  }
}

// Against EPLB on the same loads, slots and ranks.
struct Case {
  int experts, ranks, slots, nodes;
  double skew;
};

double eplb_balancedness(const Case& c, const std::vector<double>& load) {
  const EplbPlan plan =
      eplb(load, {.num_slots = c.slots, .num_groups = 1, .num_nodes = 1, .num_gpus = c.ranks});
  return plan.balancedness;
}

TEST(Planner, IsNeverLessBalancedThanEplbOnZipfLoads) {
  for (const Case& c : {Case{256, 8, 256, 1, 0.6},
                        {256, 8, 264, 1, 0.9},
                        {128, 8, 128, 1, 0.9},
                        {128, 8, 136, 1, 1.2},
                        {256, 32, 288, 4, 0.9},
                        {256, 72, 288, 9, 0.6},
                        {256, 144, 288, 18, 0.9}}) {
    double ours = 0, theirs = 0, gap = 0;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const ModelShape shape = shape_with(1, c.experts, 8);
      auto shares = zipf_shares(shape, 0, seed);
      std::vector<double> load = eplb_zipf(c.experts, c.skew, seed);
      shares[0] = load;
      const LayerTerms terms = load_terms(c.ranks);
      const PlanRequest request{.shape = &shape,
                                .terms = &terms,
                                .shares = shares,
                                .num_replicas = c.slots - c.experts,
                                .rank0_holds_experts = true,
                                .has_equal_slots = true,
                                .ignores_links = true};
      const Plan plan = plan_placement(request);
      ours += cost_of(request, plan.placement).balancedness / 5;
      theirs += eplb_balancedness(c, load) / 5;
      gap += plan.gap() / 5;
    }
    EXPECT_GE(ours, theirs - 1e-9) << c.experts << " experts, " << c.ranks << " ranks, " << c.skew;
    std::printf("%d experts %d ranks %d slots skew %.1f: ours %.4f EPLB %.4f gap %.2f %%\n",
                c.experts, c.ranks, c.slots, c.skew, ours, theirs, 100 * gap);
  }
}

}  // namespace
}  // namespace colibri
