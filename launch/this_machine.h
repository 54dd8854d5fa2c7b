// --machine auto: this machine by everything that can be asked here, and the machines of all ranks
// as one.
#pragma once

#include <cstdint>
#include <functional>

#include "launch/rank_context.h"
#include "topology/probe_cluster.h"

namespace colibri {

// hwloc, then NVML; where that is not at hand and hwloc sees GPUs, CUDA's peers, by the CUDA
// backend. What is missing is noted, and no error. Errors: as probe_cluster.
ProbedCluster this_machine();

// Called by all ranks together: the first rank of each host tells of it, rank 0 joins them in order
// of rank; the other ranks get an empty machine. `see` is this_machine, or another for tests. A
// transport of null is a rank alone. Throws one and the same AgreedError everywhere: those of `see`
// and of joined_nodes, and a lost rank.
ProbedCluster machine_of_ranks(RankContext& context, int64_t timeout_ms,
                               const std::function<ProbedCluster()>& see = this_machine);

}  // namespace colibri
