// Progress mark: one thread, one word of pinned host memory. Bound by the launch.
#include "kernels/cuda/intrinsics.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

__global__ void mark_progress_kernel(MarkProgress a) { store_for_host(a.word, a.value); }

void mark_progress(const MarkProgress& a, cudaStream_t stream) {
  launch(mark_progress_kernel, {.blocks = 1, .threads = 1, .stream = stream}, a);
}

}  // namespace colibri::cuda
