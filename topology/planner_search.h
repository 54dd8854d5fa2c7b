// How a good placement of one layer is found. Internal to topology/planner*.cc.
#pragma once

#include <cstdint>

#include "topology/planner_state.h"

namespace colibri {

// Where slots lie now, and what it takes to move them.
struct Homes {
  const RankLists* lists = nullptr;  // null: nothing lies anywhere
  double move_us = 0;                // that each slot which a rank has to read must gain
  int64_t most_moves = INT64_MAX;
};

// Slots of `lists` that are not in `homes`.
int64_t moves_from(const RankLists& homes, const RankLists& lists);

// `copies` of every expert ([E]), the busiest first, each where the time grows least. Copies that
// find no other rank are left out. `begun`: slots that stay. `near_floor` 0: only the ranks' times
// count. Above: links too, and a rank's time once it is so many times the bound of all.
RankLists packed(const PlannerCosts& costs, const LayerDemand& demand,
                 const std::vector<int>& copies, double near_floor, const RankLists& begun);

// Moves, swaps, adds and drops slots while that makes the objective smaller, looking at `effort`
// candidates at most; then spreads copies over domains where that costs nothing.
void improve(PlannerState& state, const PlannerCosts& costs, const LayerDemand& demand,
             const Homes& homes, int64_t effort);

// The best of several starts, improved. `near_floors`: those to try where links count; the best
// is left as the only one.
RankLists searched(const PlannerCosts& costs, const LayerDemand& demand, int64_t effort,
                   std::vector<double>& near_floors);

// Tiny problems, up to 4 ranks and 8 experts: looks at every placement, or shows that it takes no
// less than one that was looked at.
bool can_exhaust(const PlannerCosts& costs, const LayerDemand& demand);
struct Exhausted {
  RankLists lists;       // the best that takes less than `known_us`; empty: none does
  bool is_done = false;  // false: `effort` was used up before
};
Exhausted exhausted(const PlannerCosts& costs, const LayerDemand& demand, double known_us,
                    int64_t effort);

}  // namespace colibri
