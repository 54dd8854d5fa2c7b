// What a rank's GPU must hold, before anything is loaded.
#pragma once

#include "base/model_shape.h"
#include "launch/rank_context.h"
#include "topology/memory_plan.h"
#include "topology/placement.h"

namespace colibri {

// Plans all ranks' GPUs, has rank 0 log the table, and holds this rank's part against its GPU's
// free memory, which starts a context there. Errors: as check_gpu_memory and plan_gpu_memory.
void check_gpu_plan(const ModelShape& shape, const Placement& placement,
                    const MemoryPlanOptions& sizes, RankContext& context);

}  // namespace colibri
