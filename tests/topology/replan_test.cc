#include "topology/replan.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/topology/shapes.h"

namespace colibri {
namespace {

using List = std::vector<int32_t>;

List experts(const Placement& placement, int layer, int rank) {
  const auto list = placement.experts_of(layer, rank);
  return {list.begin(), list.end()};
}

Placement without(const Placement& placement, int rank, const std::vector<int64_t>& room = {}) {
  return placement_without(shape_of(placement.num_experts(), {true}), placement, {&rank, 1}, room);
}

const Placement kThree(shape_of(6, {true}), 4, {{{}, {0, 1}, {2, 3}, {4, 5}}});

TEST(ReplanTest, OrphansGoBehindTheSlotsOfTheEmptiestRanks) {
  const Placement next = without(kThree, 3);
  EXPECT_EQ(experts(next, 0, 0), List{});
  EXPECT_EQ(experts(next, 0, 1), (List{0, 1, 4}));
  EXPECT_EQ(experts(next, 0, 2), (List{2, 3, 5}));
  EXPECT_EQ(experts(next, 0, 3), List{});
}

TEST(ReplanTest, ExpertsWithAReplicaMoveNowhere) {
  const Placement replicated(shape_of(3, {true}), 3, {{{}, {0, 1, 2}, {2, 1}}});
  const Placement next = without(replicated, 2);
  EXPECT_EQ(experts(next, 0, 1), (List{0, 1, 2}));
  EXPECT_EQ(slots_to_load(replicated, next), (std::vector<int64_t>{0, 0, 0}));
}

TEST(ReplanTest, CoordinatorTakesExpertsOnlyWhenNobodyElseHasRoom) {
  EXPECT_EQ(experts(without(kThree, 3, {9, 3, 2, 2}), 0, 0), List{5});
  const std::vector<int> all = {1, 2, 3};
  const Placement alone = placement_without(shape_of(6, {true}), kThree, all, {});
  EXPECT_EQ(experts(alone, 0, 0), (List{0, 1, 2, 3, 4, 5}));
}

TEST(ReplanTest, CoordinatorThatHoldsExpertsTakesItsShare) {
  const Placement shared(shape_of(4, {true}), 3, {{{0}, {1}, {2, 3}}});
  const Placement next = without(shared, 2);
  EXPECT_EQ(experts(next, 0, 0), (List{0, 2}));
  EXPECT_EQ(experts(next, 0, 1), (List{1, 3}));
}

TEST(ReplanTest, RoomIsCountedOverAllLayers) {
  const ModelShape shape = shape_of(2, {true, false, true});
  const Placement two(shape, 3, {{{}, {0}, {1}}, {{}, {}, {}}, {{}, {0}, {1}}});
  const std::vector<int> lost = {2};
  const std::vector<int64_t> room = {1, 3, 9};
  const Placement next = placement_without(shape, two, lost, room);
  EXPECT_EQ(next.num_slots(1), 3);
  EXPECT_EQ(next.num_slots(0), 1);
}

TEST(ReplanTest, WithoutRoomTheErrorSaysHowMuchIsMissing) {
  EXPECT_ERROR(without(kThree, 3, {0, 3, 2, 2}), kEnvironment,
               "2 experts (all layers) need another place; the memory of the 3 that are left has "
               "room for 1");
}

TEST(ReplanTest, SecondLossBeginsFromWhatTheFirstMade) {
  const std::vector<int> lost = {2, 3};
  const Placement next = placement_without(shape_of(6, {true}), without(kThree, 3), lost, {});
  EXPECT_EQ(experts(next, 0, 1), (List{0, 1, 4, 2, 3, 5}));
}

TEST(ReplanTest, OnlyExpertsThatARankLacksAreLoaded) {
  const Placement next(shape_of(6, {true}), 4, {{{}, {1, 0, 5}, {2, 4}, {3}}});
  EXPECT_EQ(slots_to_load(kThree, next), (std::vector<int64_t>{0, 1, 1, 1}));
}

TEST(ReplanTest, SurvivingOneLossWantsRoomForAnyRanksExperts) {
  const ModelShape shape = shape_of(6, {true});
  const std::vector<int64_t> enough = {0, 3, 3, 3}, tight = {0, 4, 3, 2};
  EXPECT_NO_THROW(check_survives_one(shape, kThree, enough));
  EXPECT_ERROR(check_survives_one(shape, kThree, tight), kEnvironment,
               "the loss of rank 1 could not be made good");
}

}  // namespace
}  // namespace colibri
