// For toolkits without NVTX's header.
#include "base/cuda_ranges.h"

namespace colibri {

void push_cuda_range(const char*) {}
void pop_cuda_range() {}

}  // namespace colibri
