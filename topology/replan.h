// Other placements made from one that is in use, while it is in use: after ranks are lost, and what
// a change of placement moves. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/placement.h"

namespace colibri {

// The placement without `lost` ranks, whose lists become empty. Slots of the other ranks stay what
// and where they are. An expert that has no slot left gets one behind the last of a rank: the one
// with fewest slots in that layer, then fewest in all, then the lowest. Rank 0 gets one only where
// it holds experts already or no other rank has room. Deterministic.
// capacity_slots: [R] slots that each rank's memory holds, all layers together; empty: no limit.
// Errors: kEnvironment naming how many experts have no place and what room there is.
Placement placement_without(const ModelShape& shape, const Placement& placement,
                            std::span<const int> lost, std::span<const int64_t> capacity_slots);

// [R] slots of `next` whose expert the rank does not hold in that layer of `now`: what it loads.
// Both have the same ranks, layers and experts.
std::vector<int64_t> slots_to_load(const Placement& now, const Placement& next);

// Fails with kEnvironment, naming the rank, when the loss of any one rank but rank 0 leaves no room
// for its experts.
void check_survives_one(const ModelShape& shape, const Placement& placement,
                        std::span<const int64_t> capacity_slots);

}  // namespace colibri
