// RMSNorm: one warp a row. Half a warp holds the sixteen chains; the second half works along on the
// same numbers in the sum and on its own in the scaling.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/order.cuh"

namespace colibri::cuda {

constexpr int kWarpsPerBlock = 4;

__global__ void rms_norm_kernel(RmsNorm a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.y;
  if (row >= a.num_rows) return;
  const int lane = static_cast<int>(threadIdx.x);
  const float* x = a.x + row * a.x_stride;
  float* out = a.out + row * a.out_stride;
  float chain = 0;
  for (int64_t i = lane % kChains; i < a.width; i += kChains) {
    const float value = load(x + i);
    chain = fma_exact(value, value, chain);
  }
  const float mean = divide(sum_of_chains(chain), static_cast<float>(a.width));
  const float factor = divide(1.0f, square_root(mean + a.eps));
  for (int64_t i = lane; i < a.width; i += kWarpSize) {
    store(out + i, (load(x + i) * factor) * load(a.weight + i));
  }
}

void rms_norm(const RmsNorm& a, cudaStream_t stream) {
  launch(rms_norm_kernel,
         {.blocks = blocks_for(a.num_rows, kWarpsPerBlock),
          .threads = dim3(kWarpSize, kWarpsPerBlock),
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
