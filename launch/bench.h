// Tokens per second, and where the time goes, of a model or of random weights of a shape.
#pragma once

#include "launch/rank_context.h"
#include "launch/run_config.h"

namespace colibri {

// Runs the verb on this rank; returns the exit code.
int bench(const RunConfig& config, RankContext& context);

}  // namespace colibri
