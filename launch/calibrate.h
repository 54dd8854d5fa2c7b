// bench --calibrate: a machine file for this machine, its numbers fitted to steps timed here.
#pragma once

#include "launch/rank_context.h"
#include "launch/run_config.h"

namespace colibri {

// Runs the verb on this rank; returns the exit code.
int calibrate(const RunConfig& config, RankContext& context);

}  // namespace colibri
