// --machine auto: this machine by everything that can be asked here.
#pragma once

#include "topology/probe_cluster.h"

namespace colibri {

// hwloc, then NVML; where that is not at hand and hwloc sees GPUs, CUDA's peers, by the CUDA
// backend. What is missing is noted, and no error. Errors: as probe_cluster.
ProbedCluster this_machine();

}  // namespace colibri
