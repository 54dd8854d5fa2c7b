// Gather: copies rows into a message. Bound by memory; blocks go along a row first, a thread moves
// 16 bytes where the rows allow it.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kGatherThreads = 128;
constexpr int kGatherEach = 4;  // numbers a thread

// Numbers move as integers: as floats a signalling NaN among quantised bits might change.
template <bool aligned>
__global__ void gather_rows_kernel(GatherRows a) {
  const int64_t column =
      (static_cast<int64_t>(blockIdx.y) * kGatherThreads + static_cast<int64_t>(threadIdx.x)) *
      kGatherEach;
  const int64_t i = blockIdx.x, row = load(a.row + i);
  if (column >= a.width) return;
  const auto* from = reinterpret_cast<const uint32_t*>(a.x) + row * a.width + column;
  auto* to = reinterpret_cast<uint32_t*>(a.out) + i * a.width + column;
  store_pack<kGatherEach, aligned>(to, load_pack<kGatherEach, aligned>(from, a.width - column),
                                   a.width - column);
}

void gather_rows(const GatherRows& a, cudaStream_t stream) {
  const bool aligned = aligned_to(16, {a.x, a.out}, {a.width * 4});
  launch(
      aligned ? gather_rows_kernel<true> : gather_rows_kernel<false>,
      {.blocks = dim3(blocks_for(a.num_rows, 1), blocks_for(a.width, kGatherThreads * kGatherEach)),
       .threads = kGatherThreads,
       .stream = stream},
      a);
}

}  // namespace colibri::cuda
