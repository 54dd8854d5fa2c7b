#include "coordinator/dispatch_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace colibri {
namespace {

ModelShape one_layer(int num_experts) {
  ModelShape shape;
  shape.num_layers = 1;
  shape.num_experts = num_experts;
  shape.layer_is_moe = {true};
  return shape;
}

using Ints = std::vector<int32_t>;

TEST(DispatchPlanTest, HeaderExample) {
  const Placement two_by_two(one_layer(4), 2, {{{0, 1}, {2, 3}}});
  const Ints ids = {0, 3, 2, 3};
  DispatchPlan plan;
  plan_dispatch({.layer = 0, .num_tokens = 2, .top_k = 2, .expert_ids = ids}, two_by_two, plan);
  EXPECT_EQ(plan.row_begin, (Ints{0, 1, 3}));
  EXPECT_EQ(plan.row_token, (Ints{0, 0, 1}));
  EXPECT_EQ(plan.pair_begin, (Ints{0, 1, 2, 4}));
  EXPECT_EQ(plan.slot, (Ints{0, 1, 0, 1}));
  EXPECT_EQ(plan.pair_of_choice, (Ints{0, 1, 2, 3}));
}

TEST(DispatchPlanTest, TokenWithTwoExpertsOnOneRankTravelsOnce) {
  const Placement all_on_one(one_layer(4), 2, {{{}, {0, 1, 2, 3}}});
  const Ints ids = {1, 3};
  DispatchPlan plan;
  plan_dispatch({.layer = 0, .num_tokens = 1, .top_k = 2, .expert_ids = ids}, all_on_one, plan);
  EXPECT_EQ(plan.row_begin, (Ints{0, 0, 1}));
  EXPECT_EQ(plan.row_token, (Ints{0}));
  EXPECT_EQ(plan.slot, (Ints{1, 3}));
}

TEST(DispatchPlanTest, ReplicasAreTakenInTurnByTokenNumber) {
  const Placement twice(one_layer(1), 2, {{{0}, {0}}});
  const Ints ids = {0, 0, 0};
  DispatchPlan plan;
  plan_dispatch({.layer = 0, .num_tokens = 3, .top_k = 1, .expert_ids = ids}, twice, plan);
  EXPECT_EQ(plan.row_begin, (Ints{0, 2, 3}));
  EXPECT_EQ(plan.row_token, (Ints{0, 2, 1}));
  EXPECT_EQ(plan.pair_of_choice, (Ints{0, 2, 1}));
}

TEST(DispatchPlanTest, SlotsFollowTheOrderOfTheRanksList) {
  const Placement reversed(one_layer(3), 1, {{{2, 1, 0}}});
  const Ints ids = {0, 2};
  DispatchPlan plan;
  plan_dispatch({.layer = 0, .num_tokens = 1, .top_k = 2, .expert_ids = ids}, reversed, plan);
  EXPECT_EQ(plan.slot, (Ints{2, 0}));
}

TEST(DispatchPlanTest, NoTokensGiveAnEmptyPlan) {
  const Placement one(one_layer(2), 1, {{{0, 1}}});
  DispatchPlan plan;
  plan_dispatch({.layer = 0, .num_tokens = 0, .top_k = 2, .expert_ids = {}}, one, plan);
  EXPECT_EQ(plan.row_begin, (Ints{0, 0}));
  EXPECT_EQ(plan.pair_begin, (Ints{0}));
}

TEST(DispatchPlanTest, ReusedPlanForgetsTheLastBatch) {
  const Placement one(one_layer(2), 1, {{{0, 1}}});
  DispatchPlan plan, fresh;
  const Ints many = {0, 1, 0, 1, 0, 1}, few = {1};
  plan_dispatch({.layer = 0, .num_tokens = 3, .top_k = 2, .expert_ids = many}, one, plan);
  plan_dispatch({.layer = 0, .num_tokens = 1, .top_k = 1, .expert_ids = few}, one, plan);
  plan_dispatch({.layer = 0, .num_tokens = 1, .top_k = 1, .expert_ids = few}, one, fresh);
  EXPECT_EQ(plan.slot, fresh.slot);
  EXPECT_EQ(plan.pair_begin, fresh.pair_begin);
  EXPECT_EQ(plan.row_token, fresh.row_token);
}

TEST(DispatchPlanTest, IdOutsideTheExpertsIsOurBug) {
  const Placement one(one_layer(2), 1, {{{0, 1}}});
  const Ints ids = {2};
  DispatchPlan plan;
  EXPECT_THROW(
      plan_dispatch({.layer = 0, .num_tokens = 1, .top_k = 1, .expert_ids = ids}, one, plan),
      Error);
}

}  // namespace
}  // namespace colibri
