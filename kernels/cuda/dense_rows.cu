// Copies rows in and out of the padded arrays of kernels/cuda/dense.h and adds the bias. Bound by
// memory; at most kDenseStagedRows rows but for a bias.
#include "kernels/cuda/dense_rows.h"
#include "kernels/cuda/intrinsics.cuh"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

constexpr int kThreads = 256;

__global__ void dense_rows_kernel(DenseRows a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.width) return;
  const float bias = a.bias != nullptr ? load(a.bias + i) : 0;
  for (int64_t row = blockIdx.y; row < a.num_rows; row += gridDim.y) {
    const float value = load(a.x + row * a.x_stride + i);
    store(a.out + row * a.out_stride + i, a.bias != nullptr ? value + bias : value);
  }
}

void copy_dense_rows(const DenseRows& a, cudaStream_t stream) {
  constexpr int64_t kMostBlocks = 128;
  const auto rows = static_cast<unsigned int>(a.num_rows < kMostBlocks ? a.num_rows : kMostBlocks);
  launch(dense_rows_kernel,
         {.blocks = dim3(blocks_for(a.width, kThreads), rows),
          .threads = dim3(kThreads),
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
