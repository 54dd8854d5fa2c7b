// What a plan is asked for, held against what can be. Internal to topology/planner*.cc.
#pragma once

#include <cstdint>

#include "topology/planner.h"

namespace colibri {

// kInput for lists of other lengths, and for loads or a previous placement of another model.
void check_sizes(const PlanRequest& request);

// kEnvironment when the ranks do not hold all experts: need, room, bytes missing.
void check_room(const PlanRequest& request);

// Slots of all layers that leave room for the experts of any one rank but rank 0. kEnvironment when
// there is no such room.
int64_t slots_that_survive(const PlanRequest& request);

}  // namespace colibri
