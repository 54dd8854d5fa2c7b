// The machine as colibri sees it, or as a file describes it: text and picture.
#pragma once

#include "launch/rank_context.h"
#include "launch/run_config.h"

namespace colibri {

// Runs the verb; returns the exit code. Where several ranks were started (mpirun, srun) all call it
// and `auto` is the machine of all their hosts; rank 0 writes.
int show_machine(const RunConfig& config, RankContext& context);

}  // namespace colibri
