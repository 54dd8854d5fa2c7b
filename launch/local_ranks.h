// Ranks as threads of this process, or this process alone.
#pragma once

#include <functional>

#include "launch/rank_context.h"

namespace colibri {

// Runs `body` on `num_ranks` threads over the local transport (one rank: on this thread, without a
// transport unless the options ask for --self-exchange) and returns rank 0's result. An exception
// that leaves rank 0's body is rethrown here after all ranks have ended.
int run_local_ranks(const CommonOptions& options, int num_ranks,
                    const std::function<int(RankContext&)>& body);

}  // namespace colibri
