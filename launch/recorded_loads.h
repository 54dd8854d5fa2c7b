// The file of --record-loads around a run.
#pragma once

#include "launch/run_config.h"
#include "topology/loads.h"

namespace colibri {

// What --record-loads's file held before this run, times --loads-decay; no tokens where it is not
// there or the decay is 0. Errors: those of read_loads.
ExpertLoads read_earlier_loads(const CommonOptions& options, const ModelShape& shape);

// Adds `loads` to that and writes the file. Errors: those of write_loads.
void write_recorded_loads(const CommonOptions& options, const ModelShape& shape,
                          const ExpertLoads& loads);

}  // namespace colibri
