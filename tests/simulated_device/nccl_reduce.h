// Reductions of the simulated NCCL.
#pragma once

#include <cstddef>
#include <vector>

#include "nccl.h"

namespace colibri_sim {

// Whether reduce_ranks() knows this type and operation.
bool can_reduce(ncclDataType_t type, ncclRedOp_t op);

// out[i] = op over ranks, ascending, of inputs[rank][i]. `out` may be none of the inputs.
void reduce_ranks(const std::vector<const void*>& inputs, void* out, size_t count,
                  ncclDataType_t type, ncclRedOp_t op);

}  // namespace colibri_sim
