// Rows between GPUs, tried out: what `doctor` does where each of its ranks has one.
#pragma once

#include <functional>

#include "launch/cuda_backend.h"
#include "launch/rank_context.h"
#include "launch/run_config.h"

namespace colibri {

// Whether ranks of this machine could exchange: NCCL is there, and a GPU for each. False where the
// GPU part is missing.
bool gpus_can_exchange(const std::function<const CudaBackend&()>& open_backend, int num_ranks);

// Every rank calls it, each with its GPU. Rank 0 sends to and receives from each other rank over
// NCCL at once, and prints the median rate each way. Errors: those of NCCL.
void exchange_between_gpus(const CommonOptions& options, RankContext& context);

}  // namespace colibri
