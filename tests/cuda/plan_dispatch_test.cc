#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"
#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

struct PlanCase {
  int64_t num_tokens, top_k;
  int32_t num_experts, num_ranks;
  int32_t replicated = 0;      // experts with several copies
  int32_t num_real = -1;       // -1: not given
  bool has_bad_token = false;  // one token's router failed
  bool all_on_one = false;     // every choice goes to the last rank
};

struct PlanInputs {
  std::vector<int32_t> ids, slot_begin;
  std::vector<ExpertSlot> slots;
};

PlanInputs make_inputs(const PlanCase& c) {
  std::mt19937 random(5);
  PlanInputs in;
  std::vector<int32_t> used(static_cast<size_t>(c.num_ranks), 0);
  for (int32_t e = 0; e < c.num_experts; ++e) {
    in.slot_begin.push_back(static_cast<int32_t>(in.slots.size()));
    const int32_t copies = e < c.replicated ? 1 + e % 3 : 1;
    for (int32_t i = 0; i < copies; ++i) {
      const int32_t rank = c.all_on_one ? c.num_ranks - 1 : (e * 5 + i * 3) % c.num_ranks;
      in.slots.push_back({rank, used[static_cast<size_t>(rank)]++});
    }
  }
  in.slot_begin.push_back(static_cast<int32_t>(in.slots.size()));
  std::vector<int32_t> experts(static_cast<size_t>(c.num_experts));
  std::iota(experts.begin(), experts.end(), 0);
  for (int64_t t = 0; t < c.num_tokens; ++t) {
    std::shuffle(experts.begin(), experts.end(), random);
    std::vector<int32_t> chosen(experts.begin(), experts.begin() + c.top_k);
    std::sort(chosen.begin(), chosen.end());
    if (c.has_bad_token && t == c.num_tokens / 2) chosen[0] = -1;
    in.ids.insert(in.ids.end(), chosen.begin(), chosen.end());
  }
  return in;
}

struct Plan {
  std::vector<int32_t> row_begin, row_token, pair_begin, slot, pair_of_choice, rank_pair_begin;
  uint32_t flags = 0;
  friend bool operator==(const Plan&, const Plan&) = default;
};

constexpr int32_t kUntouched = -7;

std::vector<int32_t> untouched(int64_t count) {
  return std::vector<int32_t>(static_cast<size_t>(count), kUntouched);
}

Plan empty_plan(const PlanCase& c) {
  const int64_t most_rows = c.num_tokens * std::min<int64_t>(c.top_k, c.num_ranks);
  return {untouched(c.num_ranks + 1),
          untouched(most_rows),
          untouched(most_rows + 1),
          untouched(c.num_tokens * c.top_k),
          untouched(c.num_tokens * c.top_k),
          untouched(c.num_ranks + 1),
          0};
}

Plan plan_on_cpu(CudaRig& rig, const PlanCase& c, const PlanInputs& in) {
  Plan plan = empty_plan(c);
  rig.cpu->plan_dispatch({.expert_ids = in.ids.data(),
                          .slot_begin = in.slot_begin.data(),
                          .slots = in.slots.data(),
                          .num_real_tokens = c.num_real < 0 ? nullptr : &c.num_real,
                          .row_begin = plan.row_begin.data(),
                          .row_token = plan.row_token.data(),
                          .pair_begin = plan.pair_begin.data(),
                          .slot = plan.slot.data(),
                          .pair_of_choice = plan.pair_of_choice.data(),
                          .rank_pair_begin = plan.rank_pair_begin.data(),
                          .flags = &plan.flags,
                          .num_tokens = c.num_tokens,
                          .top_k = c.top_k,
                          .num_ranks = c.num_ranks},
                         *rig.cpu_stream);
  return plan;
}

Plan plan_on_cuda(CudaRig& rig, const PlanCase& c, const PlanInputs& in) {
  using Array = DeviceArray<int32_t>;
  const Plan empty = empty_plan(c);
  Array ids(rig, in.ids), slot_begin(rig, in.slot_begin),
      num_real(rig, std::vector<int32_t>{c.num_real});
  DeviceArray<ExpertSlot> slots(rig, in.slots);
  DeviceArray<uint32_t> flags(rig, std::vector<uint32_t>{0});
  Array row_begin(rig, empty.row_begin), row_token(rig, empty.row_token),
      pair_begin(rig, empty.pair_begin), slot(rig, empty.slot),
      pair_of_choice(rig, empty.pair_of_choice), rank_pair_begin(rig, empty.rank_pair_begin);
  rig.cuda->plan_dispatch({.expert_ids = ids.data(),
                           .slot_begin = slot_begin.data(),
                           .slots = slots.data(),
                           .num_real_tokens = c.num_real < 0 ? nullptr : num_real.data(),
                           .row_begin = row_begin.data(),
                           .row_token = row_token.data(),
                           .pair_begin = pair_begin.data(),
                           .slot = slot.data(),
                           .pair_of_choice = pair_of_choice.data(),
                           .rank_pair_begin = rank_pair_begin.data(),
                           .flags = flags.data(),
                           .num_tokens = c.num_tokens,
                           .top_k = c.top_k,
                           .num_ranks = c.num_ranks},
                          *rig.stream);
  return {row_begin.host(),      row_token.host(),       pair_begin.host(), slot.host(),
          pair_of_choice.host(), rank_pair_begin.host(), flags.host()[0]};
}

void expect_the_cpus_plan(const PlanCase& c) {
  CudaRig rig;
  const PlanInputs in = make_inputs(c);
  EXPECT_EQ(plan_on_cuda(rig, c, in), plan_on_cpu(rig, c, in))
      << c.num_tokens << " tokens, " << c.num_ranks << " ranks";
}

TEST(CudaPlanDispatch, HasTheCpusBytesForEveryNumberOfRanks) {
  for (const int32_t ranks : {1, 2, 3, 8, 64, 65, 200}) {
    expect_the_cpus_plan({.num_tokens = 13, .top_k = 6, .num_experts = 70, .num_ranks = ranks});
  }
}

TEST(CudaPlanDispatch, HasTheCpusBytesForEveryNumberOfTokens) {
  for (const int64_t tokens : {0, 1, 31, 33, 512, 1100}) {
    expect_the_cpus_plan(
        {.num_tokens = tokens, .top_k = 3, .num_experts = 12, .num_ranks = 3, .replicated = 7});
  }
}

TEST(CudaPlanDispatch, HasTheCpusBytesWhenAllGoToOneRank) {
  expect_the_cpus_plan(
      {.num_tokens = 40, .top_k = 4, .num_experts = 8, .num_ranks = 3, .all_on_one = true});
}

TEST(CudaPlanDispatch, LeavesOutPaddingAndTokensWithoutAChoice) {
  expect_the_cpus_plan({.num_tokens = 40,
                        .top_k = 4,
                        .num_experts = 8,
                        .num_ranks = 3,
                        .num_real = 29,
                        .has_bad_token = true});
  expect_the_cpus_plan(
      {.num_tokens = 4, .top_k = 2, .num_experts = 8, .num_ranks = 2, .num_real = 0});
}

TEST(CudaPlanDispatch, RefusesMoreRanksThanItPlansFor) {
  CudaRig rig;
  EXPECT_THROW(rig.cuda->plan_dispatch({.num_ranks = kMaxPlannedRanks + 1}, *rig.stream), Error);
}

}  // namespace
}  // namespace colibri
