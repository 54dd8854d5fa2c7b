// Named ranges of the calling thread, for a profiler (NVTX). Each costs a branch while none is
// attached.
#pragma once

namespace colibri {

void push_cuda_range(const char* name);
void pop_cuda_range();

}  // namespace colibri
