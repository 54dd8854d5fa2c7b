#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

struct Chosen {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Chosen route_on_cpu(CudaRig& rig, Route op) {
  const auto count = static_cast<size_t>(op.num_tokens * op.knobs.top_k);
  Chosen chosen{std::vector<int32_t>(count), std::vector<float>(count)};
  op.expert_ids = chosen.ids.data();
  op.weights = chosen.weights.data();
  rig.cpu->route(op, *rig.cpu_stream);
  return chosen;
}

Chosen route_on_cuda(CudaRig& rig, Route op, const std::vector<float>& logits,
                     const std::vector<float>& bias) {
  const auto count = static_cast<size_t>(op.num_tokens * op.knobs.top_k);
  DeviceArray<float> device_logits(rig, logits), device_bias(rig, bias), weights(rig, count);
  DeviceArray<int32_t> ids(rig, count);
  op.logits = device_logits.data();
  op.selection_bias = op.knobs.has_selection_bias ? device_bias.data() : nullptr;
  op.expert_ids = ids.data();
  op.weights = weights.data();
  rig.cuda->route(op, *rig.stream);
  return {ids.host(), weights.host()};
}

// "" or the first token whose choice or weights differ; of a token without a choice only the -1
// counts.
std::string compare(const RouterKnobs& knobs, const std::vector<float>& logits,
                    const std::vector<float>& bias) {
  CudaRig rig;
  const Route op{.knobs = knobs,
                 .logits = logits.data(),
                 .selection_bias = knobs.has_selection_bias ? bias.data() : nullptr,
                 .num_tokens = static_cast<int64_t>(logits.size()) / knobs.num_experts};
  const Chosen want = route_on_cpu(rig, op), got = route_on_cuda(rig, op, logits, bias);
  for (int64_t i = 0; i < op.num_tokens * knobs.top_k; ++i) {
    const auto at = static_cast<size_t>(i), first = at - at % static_cast<size_t>(knobs.top_k);
    if (want.ids[first] == -1 && got.ids[first] == -1) continue;
    if (want.ids[at] == got.ids[at] && want.weights[at] == got.weights[at]) continue;
    std::ostringstream text;
    text << "choice " << i << " is " << got.ids[at] << " by " << got.weights[at] << ", want "
         << want.ids[at] << " by " << want.weights[at];
    return text.str();
  }
  return "";
}

std::string compare(const RouterKnobs& knobs, int64_t tokens) {
  std::vector<float> logits = random_floats(tokens * knobs.num_experts, 1);
  for (float& x : logits) x *= 5;
  return compare(knobs, logits, random_floats(knobs.num_experts, 2));
}

TEST(CudaRoute, HasTheCpusChoiceAndBitsForEveryNumberOfExperts) {
  for (const int experts : {1, 2, 17, 32, 60, 128, 2048}) {
    for (const int k : {1, 4, 8, 40}) {
      if (k > experts) continue;
      for (const bool renormalise : {false, true}) {
        RouterKnobs knobs{.num_experts = experts, .top_k = k, .renormalise = renormalise};
        EXPECT_EQ(compare(knobs, 3), "") << experts << " " << k;
        knobs.score = ScoreFunction::kSigmoid;
        knobs.has_selection_bias = true;
        knobs.scale = 2.5f;
        knobs.renormalise_eps = 1e-20f;
        EXPECT_EQ(compare(knobs, 3), "") << experts << " " << k;
      }
    }
  }
}

TEST(CudaRoute, KeepsTheCpusGroups) {
  for (const GroupScore kind : {GroupScore::kMax, GroupScore::kTopTwoSum}) {
    for (const int groups : {2, 8, 64}) {
      const RouterKnobs knobs{.num_experts = 64,
                              .top_k = groups / 2,
                              .score = ScoreFunction::kSigmoid,
                              .has_selection_bias = true,
                              .num_groups = groups,
                              .top_groups = groups / 2,
                              .group_score = kind,
                              .renormalise = true,
                              .scale = 2.5f};
      EXPECT_EQ(compare(knobs, 5), "") << groups << " groups";
    }
  }
}

TEST(CudaRoute, TakesTheLowerIdAmongEquals) {
  CudaRig rig;
  const std::vector<float> logits(40, 1.5f);
  const Route op{.knobs = {.num_experts = 40, .top_k = 3}, .num_tokens = 1};
  EXPECT_EQ(route_on_cuda(rig, op, logits, logits).ids, (std::vector<int32_t>{0, 1, 2}));
}

TEST(CudaRoute, MarksTokensThatAreNotFinite) {
  CudaRig rig;
  std::vector<float> logits = random_floats(4 * 50, 3);
  logits[7] = std::numeric_limits<float>::quiet_NaN();
  logits[50 + 49] = std::numeric_limits<float>::infinity();
  logits[150] = -std::numeric_limits<float>::infinity();
  const Route op{.knobs = {.num_experts = 50, .top_k = 2}, .num_tokens = 4};
  const std::vector<int32_t> ids = route_on_cuda(rig, op, logits, logits).ids;
  EXPECT_EQ(ids[0], -1);
  EXPECT_EQ(ids[2], -1);
  EXPECT_GE(ids[4], 0);
  EXPECT_EQ(ids[6], -1);
}

TEST(CudaRoute, MarksTokensWhoseSelectionScoreIsNotFinite) {
  CudaRig rig;
  std::vector<float> bias(50, 0.0f);
  bias[33] = std::numeric_limits<float>::infinity();
  const Route op{.knobs = {.num_experts = 50, .top_k = 2, .has_selection_bias = true},
                 .num_tokens = 1};
  EXPECT_EQ(route_on_cuda(rig, op, random_floats(50, 4), bias).ids[0], -1);
}

TEST(CudaRoute, WithoutTokensDoesNothing) {
  EXPECT_EQ(compare({.num_experts = 8, .top_k = 2}, 0), "");
}

TEST(CudaRoute, RefusesMoreExpertsThanItHolds) {
  CudaRig rig;
  const Route op{.knobs = {.num_experts = 2049, .top_k = 2}};
  EXPECT_THROW(rig.cuda->route(op, *rig.stream), Error);
}

}  // namespace
}  // namespace colibri
