// The experts' feed-forward on bf16 rows. What bounds it and how is told in
// kernels/cuda/bf16_tile.cuh. Two kernels. In the first a warp's tile of sixteen outputs has eight
// of gate above the same eight of up, so that both sums of a hidden value end in one lane, which
// multiplies and rounds them; the second is down. An expert's weights are read once for up to 128
// rows.
#include "kernels/cuda/bf16_tile.cuh"
#include "kernels/cuda/ffn_results.cuh"
#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/order.cuh"

namespace colibri::cuda {

struct FfnBf16Shared {
  Bf16Stages stages;
  RowBlock rows;
};

__device__ __forceinline__ RowBlock find_rows(const GroupedFfn& a, FfnBf16Shared& shared) {
  if (threadIdx.y == 0) {
    find_row_block(a.group_begin, a.num_groups, kManyRows, static_cast<int>(blockIdx.y),
                   &shared.rows);
  }
  __syncthreads();
  return load_shared(&shared.rows);
}

__device__ __forceinline__ int thread_of_block() {
  return static_cast<int>(threadIdx.y) * kWarpSize + static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ const uint16_t* weights_of(const MatrixView* matrix) {
  return static_cast<const uint16_t*>(load(&matrix->data));
}
// The hidden values of a call, [P, I] bf16, lie in its f32 scratch.
__device__ __forceinline__ uint16_t* hidden_row(const GroupedFfn& a, int64_t pair) {
  return reinterpret_cast<uint16_t*>(a.hidden) + pair * a.width;
}

template <class Shape, bool aligned>
__device__ __forceinline__ void hidden_block(const GroupedFfn& a, const RowBlock& rows,
                                             Bf16Stages& shared) {
  const int64_t first_hidden = static_cast<int64_t>(blockIdx.x) * (Shape::kOutputs / 2);
  if (first_hidden >= a.width) return;
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int of_sixteen = thread_of_block() / kStageChunks;
  const ExpertWeights* expert = a.experts + rows.group;
  const uint16_t* matrix = weights_of(of_sixteen < 8 ? &expert->gate : &expert->up);
  const int64_t own = first_hidden + of_sixteen % 8;
  const Bf16Tile tile{.weight = matrix + own * a.hidden_size,
                      .weight_step = 8 * a.hidden_size,
                      .num_weights = rows_of_thread(2 * (a.width - own)),
                      .width = a.hidden_size,
                      .num_rows = rows.count};
  typename Shape::Sums sums;
  multiply_bf16<Shape, aligned>(tile, shared, sums);
  const int warp_row = warp / Shape::kWarpsM * (kTileRows * Shape::kRowTiles) + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < Shape::kTiles; ++m) {
    const int64_t n = first_hidden + (warp % Shape::kWarpsM * Shape::kTiles + m) * 8 + lane / 4;
    if (n >= a.width) continue;
#pragma unroll
    for (int t = 0; t < Shape::kRowTiles; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int r = warp_row + t * 8 + j;
        if (r >= rows.count) continue;
        store(hidden_row(a, rows.first + r) + n,
              to_bf16(silu_times(sums[m][t][j], sums[m][t][2 + j])));
      }
    }
  }
}

template <bool aligned>
__global__ void __launch_bounds__(kBf16Threads, 2) ffn_bf16_hidden_kernel(GroupedFfn a) {
  auto& shared = shared_as<FfnBf16Shared>();
  const RowBlock rows = find_rows(a, shared);
  if (rows.group < 0) return;
  const int thread = thread_of_block();
  if (thread < rows.count) {
    store_shared(&shared.stages.row[thread],
                 a.x_bf16 + load(a.pair_row + rows.first + thread) * a.hidden_size);
  }
  __syncthreads();
  with_shape(rows.count,
             [&](auto shape) { hidden_block<decltype(shape), aligned>(a, rows, shared.stages); });
}

template <class Shape, bool aligned>
__device__ __forceinline__ void down_block(const GroupedFfn& a, const RowBlock& rows,
                                           Bf16Stages& shared) {
  const int64_t first_output = static_cast<int64_t>(blockIdx.x) * Shape::kOutputs;
  if (first_output >= a.hidden_size) return;
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t own = first_output + thread_of_block() / kStageChunks;
  const Bf16Tile tile{.weight = weights_of(&a.experts[rows.group].down) + own * a.width,
                      .weight_step = 16 * a.width,
                      .num_weights = rows_of_thread(a.hidden_size - own),
                      .width = a.width,
                      .num_rows = rows.count};
  typename Shape::Sums sums;
  multiply_bf16<Shape, aligned>(tile, shared, sums);
  const int warp_row = warp / Shape::kWarpsM * (kTileRows * Shape::kRowTiles);
  const int64_t warp_output = first_output + warp % Shape::kWarpsM * Shape::kTiles * 16 + lane / 4;
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; ++t) {
    if (warp_row + t * kTileRows >= rows.count) break;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int r = warp_row + t * kTileRows + lane % 4 * 2 + j;
      const ResultRow row = result_row(a, rows.first + r, r < rows.count);
#pragma unroll
      for (int m = 0; m < Shape::kTiles; ++m) {
        store_results(a, row, warp_output + m * 16, sums[m][t][j], sums[m][t][2 + j]);
      }
    }
  }
}

template <bool aligned>
__global__ void __launch_bounds__(kBf16Threads, 2) ffn_bf16_down_kernel(GroupedFfn a) {
  auto& shared = shared_as<FfnBf16Shared>();
  const RowBlock rows = find_rows(a, shared);
  if (rows.group < 0) return;
  const int thread = thread_of_block();
  if (thread < rows.count) {
    store_shared(&shared.stages.row[thread],
                 static_cast<const uint16_t*>(hidden_row(a, rows.first + thread)));
  }
  __syncthreads();
  with_shape(rows.count,
             [&](auto shape) { down_block<decltype(shape), aligned>(a, rows, shared.stages); });
}

// Matrices of experts lie on 16 bytes where their rows are a multiple of eight long.
void grouped_ffn_bf16(const GroupedFfn& a, cudaStream_t stream) {
  const auto is_aligned = [](const void* rows, int64_t width) {
    return width % kChunkInputs == 0 && reinterpret_cast<uintptr_t>(rows) % 16 == 0;
  };
  const auto hidden = is_aligned(a.x_bf16, a.hidden_size) ? ffn_bf16_hidden_kernel<true>
                                                          : ffn_bf16_hidden_kernel<false>;
  const auto down =
      is_aligned(a.hidden, a.width) ? ffn_bf16_down_kernel<true> : ffn_bf16_down_kernel<false>;
  Grid grid{.blocks = dim3(blocks_for(a.width, kFewOutputs / 2),
                           most_row_blocks(a.num_pairs, a.num_groups, kManyRows)),
            .threads = dim3(kWarpSize, kBf16Warps),
            .shared_bytes = sizeof(FfnBf16Shared),
            .stream = stream};
  allow_shared_bytes(hidden, grid.shared_bytes);
  allow_shared_bytes(down, grid.shared_bytes);
  launch(hidden, grid, a);
  grid.blocks.x = blocks_for(a.hidden_size, kFewOutputs);
  launch(down, grid, a);
}

}  // namespace colibri::cuda
