// Probabilities of given continuations of documents; nothing is generated.
#pragma once

#include "launch/rank_context.h"
#include "launch/run_config.h"

namespace colibri {

// Runs the verb on this rank; returns the exit code.
int score(const RunConfig& config, RankContext& context);

}  // namespace colibri
