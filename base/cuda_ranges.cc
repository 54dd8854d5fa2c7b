#include "base/cuda_ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace colibri {

void push_cuda_range(const char* name) { nvtxRangePushA(name); }
void pop_cuda_range() { nvtxRangePop(); }

}  // namespace colibri
