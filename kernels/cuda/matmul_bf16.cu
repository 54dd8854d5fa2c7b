// bf16 rows times bf16 weights: the dense products for which cuBLASLt has no algorithm that gives
// every row the same bits. What bounds it and how is told in kernels/cuda/bf16_tile.cuh.
#include "kernels/cuda/bf16_tile.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

struct MatMulRows {
  int64_t first;
  int count;
};

template <class Shape, bool aligned>
__device__ __forceinline__ void matmul_block(const MatMul& a, const MatMulRows& rows,
                                             Bf16Stages& shared) {
  const int64_t first_output = static_cast<int64_t>(blockIdx.x) * Shape::kOutputs;
  if (first_output >= a.weight.rows) return;
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int thread = warp * kWarpSize + lane;
  const int64_t own = first_output + thread / kStageChunks;
  const int64_t width = a.weight.cols;
  const Bf16Tile tile{.weight = static_cast<const uint16_t*>(a.weight.data) + own * width,
                      .weight_step = 16 * width,
                      .num_weights = rows_of_thread(a.weight.rows - own),
                      .width = width,
                      .num_rows = rows.count};
  typename Shape::Sums sums;
  multiply_bf16<Shape, aligned>(tile, shared, sums);
  const int warp_row = warp / Shape::kWarpsM * (kTileRows * Shape::kRowTiles) + lane % 4 * 2;
  float* out = a.out + rows.first * a.out_stride;
#pragma unroll
  for (int m = 0; m < Shape::kTiles; ++m) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int64_t n =
          first_output + (warp % Shape::kWarpsM * Shape::kTiles + m) * 16 + lane / 4 + e / 2 * 8;
      if (n >= a.weight.rows) continue;
      const float bias = a.bias == nullptr ? -0.0f : load(a.bias + n);
#pragma unroll
      for (int t = 0; t < Shape::kRowTiles; ++t) {
        const int r = warp_row + t * 8 + e % 2;
        if (r < rows.count) store(out + r * a.out_stride + n, sums[m][t][e] + bias);
      }
    }
  }
}

template <bool aligned>
__global__ void __launch_bounds__(kBf16Threads, 2) matmul_bf16_kernel(MatMul a) {
  auto& shared = shared_as<Bf16Stages>();
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kManyRows;
  const int64_t left = a.num_tokens - first;
  const MatMulRows rows{first, static_cast<int>(left < kManyRows ? left : kManyRows)};
  const int thread = static_cast<int>(threadIdx.y) * kWarpSize + static_cast<int>(threadIdx.x);
  if (thread < rows.count) {
    store_shared(&shared.row[thread], a.x_bf16 + (first + thread) * a.weight.cols);
  }
  __syncthreads();
  with_shape(rows.count,
             [&](auto shape) { matmul_block<decltype(shape), aligned>(a, rows, shared); });
}

void matmul_bf16(const MatMul& a, cudaStream_t stream) {
  const bool aligned = a.weight.cols % kChunkInputs == 0 &&
                       reinterpret_cast<uintptr_t>(a.weight.data) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(a.x_bf16) % 16 == 0;
  const auto kernel = aligned ? matmul_bf16_kernel<true> : matmul_bf16_kernel<false>;
  allow_shared_bytes(kernel, sizeof(Bf16Stages));
  launch(
      kernel,
      {.blocks = dim3(blocks_for(a.weight.rows, kFewOutputs), blocks_for(a.num_tokens, kManyRows)),
       .threads = dim3(kWarpSize, kBf16Warps),
       .shared_bytes = sizeof(Bf16Stages),
       .stream = stream},
      a);
}

}  // namespace colibri::cuda
