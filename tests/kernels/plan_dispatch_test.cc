// The dispatch plan as an operation on the host, by hand; the GPU's is held against it.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/kernels/exchange_rig.h"
#include "tests/kernels/kernel_rig.h"

namespace colibri {
namespace {

struct Planned {
  Plan plan;
  Ints rank_pair_begin;
  uint32_t flags = 0;
};

// Two ranks; expert e has the copies tables[e].
Planned planned(const Ints& ids, int64_t top_k, const std::vector<std::vector<ExpertSlot>>& tables,
                int32_t num_real = -1) {
  Rig rig(Isa::kPortable);
  Ints slot_begin = {0};
  std::vector<ExpertSlot> slots;
  for (const auto& copies : tables) {
    slots.insert(slots.end(), copies.begin(), copies.end());
    slot_begin.push_back(static_cast<int32_t>(slots.size()));
  }
  const Ints room(ids.size() + 1, kUntouched);
  Planned out{{Ints(3, kUntouched), room, room, room, room}, Ints(3, kUntouched)};
  rig.ops->plan_dispatch({.expert_ids = ids.data(),
                          .slot_begin = slot_begin.data(),
                          .slots = slots.data(),
                          .num_real_tokens = num_real < 0 ? nullptr : &num_real,
                          .row_begin = out.plan.row_begin.data(),
                          .row_token = out.plan.row_token.data(),
                          .pair_begin = out.plan.pair_begin.data(),
                          .slot = out.plan.slot.data(),
                          .pair_of_choice = out.plan.pair_of_choice.data(),
                          .rank_pair_begin = out.rank_pair_begin.data(),
                          .flags = &out.flags,
                          .num_tokens = static_cast<int64_t>(ids.size()) / top_k,
                          .top_k = top_k,
                          .num_ranks = 2},
                         *rig.stream);
  return out;
}

Ints first_of(const Ints& values, size_t count) {
  return Ints(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
}

// Rank 0 holds experts 0 and 1, rank 1 holds 2 and 3.
const std::vector<std::vector<ExpertSlot>> kTwoByTwo = {{{0, 0}}, {{0, 1}}, {{1, 0}}, {{1, 1}}};

TEST(PlanDispatch, IsTheExampleOfTheDispatchPlan) {
  const Planned got = planned({0, 3, 2, 3}, 2, kTwoByTwo);
  EXPECT_EQ(got.plan.row_begin, (Ints{0, 1, 3}));
  EXPECT_EQ(first_of(got.plan.row_token, 3), (Ints{0, 0, 1}));
  EXPECT_EQ(first_of(got.plan.pair_begin, 4), (Ints{0, 1, 2, 4}));
  EXPECT_EQ(first_of(got.plan.slot, 4), (Ints{0, 1, 0, 1}));
  EXPECT_EQ(first_of(got.plan.pair_of_choice, 4), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(got.rank_pair_begin, (Ints{0, 1, 4}));
  EXPECT_EQ(got.flags, 0u);
}

TEST(PlanDispatch, CopiesAreTakenInTurnByTokenNumber) {
  const Planned got = planned({0, 0, 0}, 1, {{{0, 5}, {1, 7}}});
  EXPECT_EQ(got.plan.row_begin, (Ints{0, 2, 3}));
  EXPECT_EQ(first_of(got.plan.row_token, 3), (Ints{0, 2, 1}));
  EXPECT_EQ(first_of(got.plan.slot, 3), (Ints{5, 5, 7}));
}

TEST(PlanDispatch, PaddingMakesNoRowsAndSetsNoFlag) {
  const Planned got = planned({0, 3, -1, 3}, 2, kTwoByTwo, 1);
  EXPECT_EQ(got.plan.row_begin, (Ints{0, 1, 2}));
  EXPECT_EQ(first_of(got.plan.pair_of_choice, 4), (Ints{0, 1, -1, -1}));
  EXPECT_EQ(got.flags, 0u);
}

TEST(PlanDispatch, ATokenWithoutAChoiceMakesNoRowsAndSetsItsFlag) {
  const Planned got = planned({-1, 77, 2, 3}, 2, kTwoByTwo);
  EXPECT_EQ(got.plan.row_begin, (Ints{0, 0, 1}));
  EXPECT_EQ(got.plan.row_token[0], 1);
  EXPECT_EQ(first_of(got.plan.pair_of_choice, 4), (Ints{-1, -1, 0, 1}));
  EXPECT_EQ(got.flags, kFlagNotFinite);
}

TEST(PlanDispatch, ResultsOfPaddingLieAtTheFirstBlock) {
  Rig rig(Isa::kPortable);
  const Planned got = planned({0, 3, 2, 3}, 2, kTwoByTwo, 1);
  LocateCase one;
  one.plan = got.plan;
  one.plan.pair_of_choice.resize(4);
  one.top_k = 2;
  one.block_begin = {100, 200};
  one.max_results = {1, 1};
  const Located located = locate({*rig.ops, *rig.device, *rig.stream}, one);
  EXPECT_EQ(located.offset, (std::vector<int64_t>{100, 200, 100, 100}));
  EXPECT_EQ(located.flags, 0u);
}

TEST(PlanDispatch, RefusesMoreRanksThanItPlansFor) {
  Rig rig(Isa::kPortable);
  EXPECT_THROW(rig.ops->plan_dispatch({.num_ranks = kMaxPlannedRanks + 1}, *rig.stream), Error);
}

}  // namespace
}  // namespace colibri
