// The verb `doctor`: what this machine lacks, and whether two ranks can talk.
#pragma once

#include "launch/rank_context.h"
#include "launch/run_config.h"

namespace colibri {

// Prints one line a check, "ok" or the fix, then the machine and its GPUs. Returns 0: a fix is
// advice.
int print_checks();

// Runs on every rank: rank 0 exchanges messages with each other rank and prints the median time of
// a round trip; with --device cuda then rows between GPUs (doctor_exchange.h). Errors: those of
// Transport::wait and of NCCL.
int ping_ranks(const RunConfig& config, RankContext& context);

}  // namespace colibri
