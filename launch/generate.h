// The verb `generate`.
#pragma once

#include "launch/rank_context.h"

namespace colibri {

// Runs on every rank; returns the exit code.
int generate(const RunConfig& config, RankContext& context);

}  // namespace colibri
