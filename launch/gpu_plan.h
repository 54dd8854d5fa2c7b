// How the ranks come to one placement that fits all GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "launch/rank_context.h"
#include "topology/gpu.h"

namespace colibri {

// Called by all ranks of several together: rank 0 hears of each rank's free memory, `decide` turns
// it into slots that each rank's GPU can hold, [R], and every rank hears of that. An error of
// `decide`, which runs on rank 0 alone, is thrown everywhere, as AgreedError.
std::vector<int64_t> agree_on_capacities(
    RankContext& context, const GpuMemory& mine, int64_t timeout_ms,
    const std::function<std::vector<int64_t>(std::span<const GpuMemory>)>& decide);

}  // namespace colibri
