// --placement auto, and the file of --record-loads around a run.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/rank_context.h"
#include "launch/run_config.h"
#include "topology/loads.h"
#include "topology/placement.h"

namespace colibri {

// What rank 0 knows of the requests.
struct AutoPlacementSizes {
  double batch = 16, context = 2048;
  int survive = 0;
  std::vector<int64_t> capacity_slots = {};  // [R]; empty: not known
};

// Called by all ranks of several together: rank 0 plans for --machine (or for ranks that are alike)
// and by
// --loads, the others get its plan. An error of the plan is thrown everywhere, as AgreedError.
Placement auto_placement(RankContext& context, const CommonOptions& options,
                         const ModelShape& shape, const AutoPlacementSizes& sizes,
                         int64_t timeout_ms);

// What --record-loads's file held before this run, times --loads-decay; no tokens where it is not
// there or the decay is 0. Errors: those of read_loads.
ExpertLoads read_earlier_loads(const CommonOptions& options, const ModelShape& shape);

// Adds `loads` to that and writes the file. Errors: those of write_loads.
void write_recorded_loads(const CommonOptions& options, const ModelShape& shape,
                          const ExpertLoads& loads);

}  // namespace colibri
