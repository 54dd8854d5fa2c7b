#include "topology/planner.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/expect_error.h"
#include "tests/topology/planner_cases.h"
#include "topology/layer_figures.h"
#include "topology/replan.h"

namespace colibri {
namespace {

ExpertLoads loads_of(const ModelShape& shape, const std::vector<double>& chances) {
  ExpertLoads loads = empty_loads(shape, false);
  for (LayerLoads& layer : loads.phases[1]) {
    layer.num_tokens = 1e9;
    for (size_t e = 0; e < chances.size(); ++e) layer.tokens[e] = 1e9 * chances[e];
  }
  return loads;
}

// One link out of rank 0 and one back, that the ranks from `first_far` on lie behind.
void add_links(LayerTerms& terms, size_t first_far, double us) {
  LinkTerm link;
  link.name = "fabric";
  link.crosses_nodes = true;
  link.row_us.assign(terms.row_us.size(), 0);
  link.result_us.assign(terms.row_us.size(), 0);
  for (size_t rank = first_far; rank < link.row_us.size(); ++rank) {
    link.row_us[rank] = link.result_us[rank] = us;
  }
  terms.dispatch_links = terms.combine_links = {link};
}

RankExperts sorted(RankExperts lists) {
  for (auto& list : lists) std::sort(list.begin(), list.end());
  std::sort(lists.begin(), lists.end());
  return lists;
}

// Chances 0.5 0.3 0.1 0.1 on two ranks of two slots: 0.5 + 0.1 against 0.3 + 0.1 is the best.
TEST(PlannerTest, HotExpertsGoToDifferentRanks) {
  const ModelShape shape = plan_shape(4, 1);
  const ExpertLoads loads = loads_of(shape, {0.5, 0.3, 0.1, 0.1});
  const LayerTerms terms = balance_terms(2);
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots = {2, 2};
  const Plan plan = plan_placement(request);
  EXPECT_NEAR(plan.predicted_us, 0.6, 1e-9);
  EXPECT_NEAR(plan.gap(), 0, 1e-9);
}

// Expert 0 on both ranks: 0.35 + 0.1 + 0.1 against 0.7 without a second copy.
TEST(PlannerTest, ASpareSlotSplitsTheHottestExpert) {
  const ModelShape shape = plan_shape(4, 1);
  const ExpertLoads loads = loads_of(shape, {0.7, 0.1, 0.1, 0.1});
  const LayerTerms terms = balance_terms(2);
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots = {3, 3};
  request.replicas = 1;
  const Plan plan = plan_placement(request);
  EXPECT_EQ(plan.placement.slots_of(0, 0).size(), 2u);
  EXPECT_NEAR(plan.predicted_us, 0.55, 1e-9);
}

// Rows to rank 1 cost 10 each, an expert's rows 1 each: all that rank 0 can hold lies there.
TEST(PlannerTest, HotExpertsStayNearWhereTheLinkIsTheLimit) {
  const ModelShape shape = plan_shape(4, 1);
  const ExpertLoads loads = loads_of(shape, {0.1, 0.5, 0.1, 0.3});
  LayerTerms terms = balance_terms(2);
  add_links(terms, 1, 10);
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots = {2, 4};
  EXPECT_EQ(lists_of(plan_placement(request).placement, 0), (RankExperts{{1, 3}, {0, 2}}));
}

// Experts 0 and 1, 2 and 3 are always chosen together: on one rank they cost one row, on two ranks
// two.
TEST(PlannerTest, ExpertsChosenTogetherLieTogetherWhereTheLinkIsTheLimit) {
  const ModelShape shape = plan_shape(4, 2);
  ExpertLoads loads = empty_loads(shape, true);
  LayerLoads& layer = loads.phases[1][0];
  layer.num_tokens = 100;
  layer.tokens = {50, 50, 50, 50};
  layer.pairs[pair_index(0, 2)] = 50;
  layer.pairs[pair_index(1, 3)] = 50;
  LayerTerms terms = balance_terms(3);
  add_links(terms, 1, 10);
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots = {0, 2, 2};
  EXPECT_EQ(sorted(lists_of(plan_placement(request).placement, 0)),
            (RankExperts{{}, {0, 2}, {1, 3}}));
}

TEST(PlannerTest, CopiesLieInDifferentDomains) {
  const ModelShape shape = plan_shape(4, 1);
  const ExpertLoads loads = loads_of(shape, {0.6, 0.2, 0.1, 0.1});
  const LayerTerms terms = balance_terms(4);
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots = {2, 2, 2, 2};
  request.replicas = 1;
  request.domain_of_rank = {0, 0, 1, 1};
  const Plan plan = plan_placement(request);
  const auto slots = plan.placement.slots_of(0, 0);
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_NE(slots[0].rank / 2, slots[1].rank / 2);
}

TEST(PlannerTest, Rank0HoldsOnlyWhatItMay) {
  const ModelShape shape = plan_shape(8, 2, 3);
  const LayerTerms terms = balance_terms(3);
  PlanRequest request{shape, terms};
  request.coordinator_slots = 0;
  request.replicas = 0;
  EXPECT_EQ(plan_placement(request).placement.num_slots(0), 0);
  // The others hold 6 of 8: two a layer are left.
  request.capacity_slots = {24, 9, 9};
  EXPECT_EQ(plan_placement(request).placement.num_slots(0), 6);
}

TEST(PlannerTest, WhatDoesNotFitSaysHowManyBytesAreMissing) {
  const ModelShape shape = plan_shape(8, 2);  // 1000 bytes an expert
  const LayerTerms terms = balance_terms(2);
  PlanRequest request{shape, terms};
  request.capacity_slots = {2, 3};
  EXPECT_ERROR(plan_placement(request), kEnvironment, "3000 bytes are missing");
}

TEST(PlannerTest, ASurvivingPlanLeavesRoomForAnyRank) {
  const ModelShape shape = plan_shape(8, 2, 2);
  const LayerTerms terms = balance_terms(4);
  PlanRequest request{shape, terms};
  request.capacity_slots = {0, 8, 8, 8};
  request.survives_one = true;
  const Plan plan = plan_placement(request);
  EXPECT_NO_THROW(check_survives_one(shape, plan.placement, request.capacity_slots));
  request.capacity_slots = {0, 8, 8, 7};
  EXPECT_ERROR(plan_placement(request), kEnvironment, "1000 bytes are missing");
}

TEST(PlannerTest, LoadsOfAnotherModelAreRefused) {
  const ModelShape shape = plan_shape(8, 2);
  ExpertLoads loads = empty_loads(shape, false);
  loads.fingerprint = "beef";
  const LayerTerms terms = balance_terms(2);
  EXPECT_ERROR(plan_placement({shape, terms, &loads}), kInput, "loads of model qwen3_moe (beef)");
}

TEST(PlannerTest, APreviousPlacementForOtherRanksIsRefused) {
  const ModelShape shape = plan_shape(8, 2);
  const Placement previous = contiguous_placement(shape, {.num_ranks = 3});
  const LayerTerms terms = balance_terms(2);
  PlanRequest request{shape, terms};
  request.previous = &previous;
  EXPECT_ERROR(plan_placement(request), kInput, "is for 3 ranks, the plan for 2");
}

// ---- against every placement --------------------------------------------------------------------

struct SmallCase {
  ModelShape shape;
  LayerTerms terms;
  ExpertLoads loads;
  std::vector<int64_t> capacity;
  int replicas = 0;
};

SmallCase small_case(int num_experts, int num_ranks, uint64_t seed) {
  Draws draws(seed);
  SmallCase c{plan_shape(num_experts, 2), {}, {}, {}, static_cast<int>(draws.below(2))};
  c.terms.num_tokens = draws.uniform() < 0.5 ? 4 : 64;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const double speed = draws.uniform() < 0.5 ? 1 : 1 + draws.uniform();
    c.terms.expert_fixed_us.push_back(5);
    c.terms.touched_us.push_back(4 * speed);
    c.terms.row_us.push_back(0.3 * speed);
    c.capacity.push_back(num_experts);
  }
  add_links(c.terms, 1 + draws.below(static_cast<size_t>(num_ranks)), 0.5 * draws.uniform());
  c.terms.adds_results = draws.uniform() < 0.5;
  c.loads = empty_loads(c.shape, false);
  c.loads.phases[1][0] =
      sampled_layer(zipf_weights(num_experts, 0.9, seed), 2, 500, seed, draws.uniform() < 0.5);
  return c;
}

// All ways to give each expert a set of ranks, with `replicas` slots more than experts at most.
class BruteForce {
 public:
  BruteForce(const PlanRequest& request, int num_ranks)
      : request_(request),
        masks_(static_cast<size_t>(request.shape.num_experts)),
        num_ranks_(static_cast<size_t>(num_ranks)) {}
  double best_us() {
    go(0, request_.replicas);
    return best_us_;
  }

 private:
  void go(size_t expert, int spare) {
    if (expert == masks_.size()) return look();
    for (unsigned mask = 1; mask < (1u << num_ranks_); ++mask) {
      const int copies = __builtin_popcount(mask);
      if (copies - 1 > spare) continue;
      masks_[expert] = mask;
      go(expert + 1, spare - (copies - 1));
    }
  }
  void look() {
    ExpertLists lists(1);
    lists[0].resize(num_ranks_);
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      for (size_t e = 0; e < masks_.size(); ++e) {
        if ((masks_[e] >> rank & 1) != 0) lists[0][rank].push_back(static_cast<int32_t>(e));
      }
    }
    const Placement placement(request_.shape, static_cast<int>(num_ranks_), lists);
    best_us_ = std::min(best_us_, planned_layer_time(request_, placement, 0).total_us());
  }

  const PlanRequest& request_;
  std::vector<unsigned> masks_;
  size_t num_ranks_;
  double best_us_ = 1e300;
};

void expect_best(int num_experts, int num_ranks, uint64_t seed) {
  SmallCase c = small_case(num_experts, num_ranks, seed);
  PlanRequest request{c.shape, c.terms, &c.loads};
  request.capacity_slots = c.capacity;
  request.replicas = c.replicas;
  const Plan plan = plan_placement(request);
  const double best_us = BruteForce(request, num_ranks).best_us();
  EXPECT_NEAR(plan.predicted_us, best_us, 1e-9 * best_us) << "seed " << seed;
  EXPECT_NEAR(plan.bound_us, best_us, 1e-9 * best_us) << "seed " << seed;
}

TEST(PlannerTest, TinyPlansAreTheBestOfAll) {
  for (uint64_t seed = 0; seed < 12; ++seed) expect_best(5, 3, seed);
  for (uint64_t seed = 0; seed < 4; ++seed) expect_best(8, 2, seed);
}

TEST(PlannerTest, FourRanksOfEightExpertsAreTheBestOfAll) {
  if (std::getenv("FULL_TESTS") == nullptr) GTEST_SKIP() << "set FULL_TESTS=1";
  for (uint64_t seed = 0; seed < 6; ++seed) expect_best(8, 4, seed);
}

// The search by itself, without looking at everything: its bound is one.
TEST(PlannerTest, TheBoundIsNeverAboveTheBest) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SmallCase c = small_case(5, 3, seed + 100);
    PlanRequest request{c.shape, c.terms, &c.loads};
    request.capacity_slots = c.capacity;
    request.replicas = c.replicas;
    request.effort = 0;  // so that tiny plans are not looked through
    EXPECT_LE(plan_placement(request).bound_us, BruteForce(request, 3).best_us() * (1 + 1e-9))
        << "seed " << seed;
  }
}

// ---- random machines and loads ------------------------------------------------------------------

struct RandomCase {
  ModelShape shape;
  LayerTerms terms;
  ExpertLoads loads;
  PlanRequest request() const {
    PlanRequest request{shape, terms, &loads};
    request.capacity_slots = capacity;
    request.domain_of_rank = domains;
    return request;
  }
  std::vector<int64_t> capacity;
  std::vector<int> domains;
};

RandomCase random_case(uint64_t seed) {
  Draws draws(seed + 1000);
  const int num_experts = 8 << draws.below(3), num_layers = 1 + static_cast<int>(draws.below(3));
  const size_t num_ranks = 2 + draws.below(6);
  RandomCase c{plan_shape(num_experts, 4, num_layers), {}, {}, {}, {}};
  c.terms.num_tokens = 32;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const double speed = draws.uniform() < 0.7 ? 1 : 2;
    c.terms.expert_fixed_us.push_back(5);
    c.terms.touched_us.push_back(3 * speed);
    c.terms.row_us.push_back(0.2 * speed);
    c.domains.push_back(static_cast<int>(rank * 2 / num_ranks));
    const auto even =
        static_cast<int64_t>(num_experts) * num_layers / static_cast<int64_t>(num_ranks);
    c.capacity.push_back(even + static_cast<int64_t>(draws.below(8)) + num_layers);
  }
  add_links(c.terms, 1 + draws.below(num_ranks), draws.uniform());
  c.loads = empty_loads(c.shape, false);
  const bool with_pairs = draws.uniform() < 0.5;
  for (LayerLoads& layer : c.loads.phases[1]) {
    const auto weights = zipf_weights(num_experts, 1.5 * draws.uniform(), draws.below(1000));
    layer = sampled_layer(weights, 4, 300, draws.below(1000), with_pairs);
  }
  return c;
}

constexpr uint64_t kNumCases = 40;

TEST(PlannerPropertyTest, LimitsAreKept) {
  for (uint64_t seed = 0; seed < kNumCases; ++seed) {
    const RandomCase c = random_case(seed);
    const Plan plan = plan_placement(c.request());
    EXPECT_NO_THROW(check_capacity(plan.placement, c.capacity)) << "seed " << seed;
    EXPECT_GE(plan.predicted_us, plan.bound_us * (1 - 1e-9)) << "seed " << seed;
  }
}

TEST(PlannerPropertyTest, NoPlanIsSlowerThanContiguousParts) {
  for (uint64_t seed = 0; seed < kNumCases; ++seed) {
    const Plan plan = plan_placement(random_case(seed).request());
    EXPECT_LE(plan.predicted_us, plan.start_us * (1 + 1e-9)) << "seed " << seed;
  }
}

TEST(PlannerPropertyTest, RanksMayChangeNames) {
  for (uint64_t seed = 0; seed < kNumCases; ++seed) {
    const RandomCase c = random_case(seed);
    RandomCase renamed = c;
    const size_t num_ranks = c.capacity.size();
    const auto name = [&](size_t rank) {  // rank 0 stays the coordinator
      return rank == 0 ? 0 : 1 + (rank + seed) % (num_ranks - 1);
    };
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      renamed.capacity[name(rank)] = c.capacity[rank];
      renamed.domains[name(rank)] = c.domains[rank];
      renamed.terms.expert_fixed_us[name(rank)] = c.terms.expert_fixed_us[rank];
      renamed.terms.touched_us[name(rank)] = c.terms.touched_us[rank];
      renamed.terms.row_us[name(rank)] = c.terms.row_us[rank];
      for (auto* links : {&renamed.terms.dispatch_links, &renamed.terms.combine_links}) {
        (*links)[0].row_us[name(rank)] = c.terms.dispatch_links[0].row_us[rank];
        (*links)[0].result_us[name(rank)] = c.terms.dispatch_links[0].result_us[rank];
      }
    }
    const double us = plan_placement(c.request()).predicted_us;
    EXPECT_NEAR(plan_placement(renamed.request()).predicted_us, us, 1e-6 * us) << "seed " << seed;
  }
}

TEST(PlannerPropertyTest, AReplanWithoutAChangeMovesNothing) {
  for (uint64_t seed = 0; seed < kNumCases; ++seed) {
    const RandomCase c = random_case(seed);
    const Plan first = plan_placement(c.request());
    PlanRequest again = c.request();
    again.previous = &first.placement;
    const Plan second = plan_placement(again);
    EXPECT_EQ(second.num_moves, 0) << "seed " << seed;
    EXPECT_TRUE(second.placement == first.placement) << "seed " << seed;
  }
}

TEST(PlannerPropertyTest, NoMoreSlotsMoveThanAllowed) {
  for (uint64_t seed = 0; seed < kNumCases; ++seed) {
    const RandomCase c = random_case(seed);
    const Placement previous = round_robin_placement(
        c.shape, {.num_ranks = static_cast<int>(c.capacity.size()), .capacity_slots = c.capacity});
    PlanRequest request = c.request();
    request.previous = &previous;
    const Plan freely = plan_placement(request);
    EXPECT_LE(freely.predicted_us, freely.start_us * (1 + 1e-9)) << "seed " << seed;
    request.max_moves = static_cast<int64_t>(seed % 5);
    const Plan plan = plan_placement(request);
    EXPECT_LE(plan.num_moves, request.max_moves) << "seed " << seed;
    EXPECT_LE(plan.predicted_us, plan.start_us * (1 + 1e-9)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace colibri
