// The verb `serve`.
#pragma once

#include "launch/rank_context.h"

namespace colibri {

// Runs on every rank; returns the exit code. Rank 0 answers HTTP until TERM or INT: then requests
// under way end, and all ranks leave with 0.
int serve(const RunConfig& config, RankContext& context);

}  // namespace colibri
