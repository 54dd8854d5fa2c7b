// The router's choice and weights on cases worked by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/kernels/kernel_rig.h"

namespace colibri {
namespace {

struct Choice {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Choice route(const RouterKnobs& knobs, const std::vector<float>& logits,
             const std::vector<float>& bias = {}, Isa isa = best_isa()) {
  Rig rig(isa, 2);
  const int64_t tokens = static_cast<int64_t>(logits.size()) / knobs.num_experts;
  Choice choice;
  choice.ids.resize(static_cast<size_t>(tokens * knobs.top_k));
  choice.weights.resize(choice.ids.size());
  rig.ops->route({.knobs = knobs,
                  .logits = logits.data(),
                  .selection_bias = bias.empty() ? nullptr : bias.data(),
                  .expert_ids = choice.ids.data(),
                  .weights = choice.weights.data(),
                  .num_tokens = tokens},
                 *rig.stream);
  return choice;
}

using Ids = std::vector<int32_t>;

TEST(RouteTest, ChosenExpertsStandInAscendingOrder) {
  const Choice choice = route({.num_experts = 5, .top_k = 3}, {0, 3, 1, 2, 9});
  EXPECT_EQ(choice.ids, (Ids{1, 3, 4}));
}

TEST(RouteTest, SoftmaxIsOverAllExperts) {
  const Choice choice = route({.num_experts = 4, .top_k = 1}, {0, 0, 0, 0});
  EXPECT_EQ(choice.weights, (std::vector<float>{0.25f}));
}

TEST(RouteTest, TheLowerExpertWinsATie) {
  const Choice choice = route({.num_experts = 6, .top_k = 2}, {1, 5, 2, 2, 2, 2});
  EXPECT_EQ(choice.ids, (Ids{1, 2}));
}

TEST(RouteTest, RenormalisedWeightsOfEqualExpertsAreHalves) {
  const Choice choice =
      route({.num_experts = 4, .top_k = 2, .renormalise = true}, {3, -50, 3, -50});
  EXPECT_EQ(choice.ids, (Ids{0, 2}));
  EXPECT_EQ(choice.weights, (std::vector<float>{0.5f, 0.5f}));
}

TEST(RouteTest, ScaleMultipliesLast) {
  const Choice choice =
      route({.num_experts = 4, .top_k = 2, .renormalise = true, .scale = 2.5f}, {3, -50, 3, -50});
  EXPECT_EQ(choice.weights, (std::vector<float>{1.25f, 1.25f}));
}

TEST(RouteTest, EpsilonIsAddedToTheSum) {
  // Two scores of 0.5: 0.5 / (1 + 1) * 1.
  const RouterKnobs knobs{.num_experts = 2,
                          .top_k = 2,
                          .score = ScoreFunction::kSigmoid,
                          .renormalise = true,
                          .renormalise_eps = 1.0f};
  EXPECT_EQ(route(knobs, {0, 0}).weights, (std::vector<float>{0.25f, 0.25f}));
}

TEST(RouteTest, BiasChangesTheChoiceButNotTheWeights) {
  const RouterKnobs plain{.num_experts = 3, .top_k = 1, .score = ScoreFunction::kSigmoid};
  RouterKnobs biased = plain;
  biased.has_selection_bias = true;
  EXPECT_EQ(route(plain, {2, 0, -1}).ids, (Ids{0}));
  const Choice choice = route(biased, {2, 0, -1}, {0, 0.7f, 0});
  EXPECT_EQ(choice.ids, (Ids{1}));
  EXPECT_EQ(choice.weights, (std::vector<float>{0.5f}));  // sigmoid(0), without the bias
}

// Scores 0.5 everywhere, the bias decides: groups {0,1} {2,3} {4,5}.
RouterKnobs three_groups(int top_groups, GroupScore score) {
  return {.num_experts = 6,
          .top_k = 2,
          .score = ScoreFunction::kSigmoid,
          .has_selection_bias = true,
          .num_groups = 3,
          .top_groups = top_groups,
          .group_score = score};
}
const std::vector<float> kEven(6, 0.0f);

TEST(RouteTest, GroupsAreKeptByTheSumOfTheirTwoBest) {
  // Sums of bias: 0.9, 1.0, 0.4. The best single expert (0) is in a dropped group.
  const Choice choice =
      route(three_groups(1, GroupScore::kTopTwoSum), kEven, {0.9f, 0, 0.5f, 0.5f, 0.2f, 0.2f});
  EXPECT_EQ(choice.ids, (Ids{2, 3}));
}

TEST(RouteTest, GroupsAreKeptByTheirBestWhenAsked) {
  const Choice choice =
      route(three_groups(1, GroupScore::kMax), kEven, {0.9f, 0, 0.5f, 0.5f, 0.2f, 0.2f});
  EXPECT_EQ(choice.ids, (Ids{0, 1}));
}

TEST(RouteTest, TheLowerGroupWinsATie) {
  const Choice choice =
      route(three_groups(1, GroupScore::kTopTwoSum), kEven, {0.1f, 0.1f, 0.5f, 0.25f, 0.25f, 0.5f});
  EXPECT_EQ(choice.ids, (Ids{2, 3}));
}

TEST(RouteTest, ExpertsOfDroppedGroupsAreNeverChosenEvenWhenAllKeptOnesAreNegative) {
  const Choice choice =
      route(three_groups(1, GroupScore::kTopTwoSum), kEven, {-3, -3, -1, -2, -3, -3});
  EXPECT_EQ(choice.ids, (Ids{2, 3}));
}

TEST(RouteTest, TwoOfThreeGroupsCompete) {
  const Choice choice =
      route(three_groups(2, GroupScore::kTopTwoSum), kEven, {0.6f, 0, 0.5f, 0.4f, 0.2f, 0.55f});
  EXPECT_EQ(choice.ids, (Ids{2, 5}));  // sums 0.6, 0.9, 0.75: groups 1 and 2 stay
}

TEST(RouteTest, AGroupOfOneExpertCountsWithItsScore) {
  RouterKnobs knobs = three_groups(2, GroupScore::kTopTwoSum);
  knobs.num_groups = 6;
  const Choice choice = route(knobs, kEven, {0, 0.3f, 0, 0, 0.2f, 0});
  EXPECT_EQ(choice.ids, (Ids{1, 4}));
}

TEST(RouteTest, ATokenWithLogitsThatAreNotFiniteIsFlaggedAloneAndOthersAreNot) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const Choice choice = route({.num_experts = 3, .top_k = 1}, {0, 1, 0, 0, bad, 0, 0, 0, 1});
    EXPECT_EQ(choice.ids, (Ids{1, -1, 2}));
  }
}

TEST(RouteTest, ABiasThatIsNotFiniteIsFlagged) {
  RouterKnobs knobs{.num_experts = 3, .top_k = 1};
  knobs.has_selection_bias = true;
  EXPECT_EQ(route(knobs, {0, 1, 0}, {0, 0, std::nanf("")}).ids, (Ids{-1}));
}

TEST(RouteTest, MoreExpertsThanTheLimitIsRefused) {
  const RouterKnobs knobs{.num_experts = kMaxExperts + 1, .top_k = 1};
  EXPECT_THROW(route(knobs, std::vector<float>(kMaxExperts + 1)), Error);
}

TEST(RouteTest, MoreChoicesThanKeptExpertsIsRefused) {
  RouterKnobs knobs = three_groups(1, GroupScore::kTopTwoSum);
  knobs.top_k = 3;
  EXPECT_THROW(route(knobs, kEven, kEven), Error);
}

TEST(RouteTest, AllSetsChooseAlikeAndARowDoesNotDependOnOthers) {
  const int experts = 37, tokens = 70;
  const RouterKnobs softmax{.num_experts = experts, .top_k = 5, .renormalise = true};
  RouterKnobs sigmoid = softmax;
  sigmoid.score = ScoreFunction::kSigmoid;
  sigmoid.has_selection_bias = true;
  const std::vector<float> logits = random_floats(experts * tokens, 20);
  const std::vector<float> bias = random_floats(experts, 21);
  for (const RouterKnobs& knobs : {softmax, sigmoid}) {
    const Choice want = route(knobs, logits, bias, Isa::kPortable);
    for (const Isa isa : available_isas()) {
      const Choice got = route(knobs, logits, bias, isa);
      EXPECT_EQ(got.ids, want.ids) << to_string(isa);
      EXPECT_EQ(difference(got.weights, want.weights), "") << to_string(isa);
    }
    const std::vector<float> row(logits.begin() + 33 * experts, logits.begin() + 34 * experts);
    const Choice alone = route(knobs, row, bias);
    EXPECT_EQ(
        difference(alone.weights, {want.weights.begin() + 33 * 5, want.weights.begin() + 34 * 5}),
        "");
  }
}

TEST(RouteTest, WeightsAreCloseToSoftmaxInDouble) {
  const int experts = 129;
  const std::vector<float> logits = random_floats(experts, 22);
  const Choice choice = route({.num_experts = experts, .top_k = 8}, logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  for (size_t k = 0; k < 8; ++k) {
    const double want = std::exp(double{logits[choice.ids[k]]}) / sum;
    EXPECT_NEAR(choice.weights[k] / want, 1.0, 1e-6);
  }
}

}  // namespace
}  // namespace colibri
