// The ranks of this run on a machine, for plans.
#pragma once

#include <string>

#include "launch/rank_context.h"
#include "topology/rank_map.h"

namespace colibri {

// On --machine where it is given, else on RankContext::hosts or this machine as it is seen, filled
// host by host in order; where that has less than the ranks use, on ranks of one CPU, or GPUs
// around one switch. kInput as machine_named and ranks_on for a machine that is given.
RankMap map_of_run(const RankContext& context, const std::string& machine);

}  // namespace colibri
