// The experts' feed-forward on quantised rows. What bounds it and how is told in
// kernels/cuda/quantised_tile.cuh. Two kernels. In the first a block has two panels of gate and the
// same two of up: 32 hidden values, a whole group, of up to 64 rows, so that they are multiplied
// and quantised where they were made and only codes and scales are written. The second has four
// panels of down. Rows beyond 64 of one expert are further blocks, which find its weights in the
// second-level cache.
#include "kernels/cuda/ffn_results.cuh"
#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/order.cuh"
#include "kernels/cuda/quantise.cuh"
#include "kernels/cuda/quantised_tile.cuh"

namespace colibri::cuda {

constexpr int kFfnWarps = 4;
constexpr int kFfnThreads = kFfnWarps * kWarpSize;
constexpr int kHiddenOfBlock = static_cast<int>(kGroup);
constexpr int kOutputsOfBlock = kFfnWarps * kPanel;

// Gate and up of a block, [row][output] with rows apart so that neither way has bank conflicts.
// Takes the place of the stages when they are done with.
struct GateAndUp {
  float value[2][kTileRows][kHiddenOfBlock + 4];
};

template <DType dtype>
struct FfnShared {
  QuantisedStages<dtype, kFfnWarps> stages;
  RowBlock rows;
};

template <DType dtype>
__device__ __forceinline__ RowBlock find_rows(const GroupedFfn& a, FfnShared<dtype>& shared) {
  if (threadIdx.y == 0) {
    find_row_block(a.group_begin, a.num_groups, kTileRows, static_cast<int>(blockIdx.y),
                   &shared.rows);
  }
  __syncthreads();
  return load_shared(&shared.rows);
}

// Panel `index` of a matrix of the expert.
template <DType dtype>
__device__ __forceinline__ const unsigned char* panel_of(const MatrixView* matrix, int64_t width,
                                                         int64_t index) {
  return static_cast<const unsigned char*>(load(&matrix->data)) + index * panel_bytes(dtype, width);
}

template <class Shape>
__device__ __forceinline__ void store_gate_and_up(const typename Shape::Sums& sums, int tiles,
                                                  GateAndUp& to) {
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; ++t) {
    if (t >= tiles) break;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = t * 8 + lane % 4 * 2 + e % 2;
      const int output = warp % 2 * kPanel + lane / 4 + e / 2 * 8;
      store_shared(&to.value[warp / 2][row][output], sums[t][e]);
    }
  }
}

// Eight lanes a row. Rows past the last are worked out like the others, because lanes must meet.
__device__ __forceinline__ void quantise_hidden(const GroupedFfn& a, const RowBlock& rows,
                                                const GateAndUp& from) {
  const int thread = static_cast<int>(threadIdx.y) * kWarpSize + static_cast<int>(threadIdx.x);
  const int column = thread % kLanesPerGroup * kPerLane;
  const int64_t group = blockIdx.x;
  for (int r = thread / kLanesPerGroup; r < kTileRows; r += kFfnThreads / kLanesPerGroup) {
    if (r / kPerLane * kPerLane >= rows.count) break;  // the same for a warp's four rows
    const float4 gate = load_shared(reinterpret_cast<const float4*>(&from.value[0][r][column]));
    const float4 up = load_shared(reinterpret_cast<const float4*>(&from.value[1][r][column]));
    const QuantisedFour four = quantise_four({silu_times(gate.x, up.x), silu_times(gate.y, up.y),
                                              silu_times(gate.z, up.z), silu_times(gate.w, up.w)});
    if (r >= rows.count) continue;
    unsigned char* row = static_cast<unsigned char*>(a.hidden_quantised) +
                         (rows.first + r) * activation_row_bytes(a.width);
    store(reinterpret_cast<uint32_t*>(row + group * kGroup + column), four.codes);
    if (column == 0) store(reinterpret_cast<float*>(row + a.width) + group, four.scale);
  }
}

template <DType dtype, bool aligned>
__global__ void __launch_bounds__(kFfnThreads, kBlocksTogether)
    ffn_quantised_hidden_kernel(GroupedFfn a) {
  auto& shared = shared_as<FfnShared<dtype>>();
  const int thread = static_cast<int>(threadIdx.y) * kWarpSize + static_cast<int>(threadIdx.x);
  const RowBlock rows = find_rows(a, shared);
  if (rows.group < 0) return;
  if (thread < rows.count) {
    store_shared(&shared.stages.row[thread],
                 static_cast<const unsigned char*>(a.x_quantised) +
                     load(a.pair_row + rows.first + thread) * activation_row_bytes(a.hidden_size));
  }
  const ExpertWeights* expert = a.experts + rows.group;
  const MatrixView* matrix = threadIdx.y < 2 ? &expert->gate : &expert->up;
  const int64_t panel = static_cast<int64_t>(blockIdx.x) * 2 + threadIdx.y % 2;
  const QuantisedTile tile{panel_of<dtype>(matrix, a.hidden_size, panel),
                           static_cast<int>(a.hidden_size / kGroup), rows.count};
  __syncthreads();
  static_assert(sizeof(GateAndUp) <= sizeof(shared.stages.tile));
  auto& hidden = reinterpret_cast<GateAndUp&>(shared.stages.tile);
  with_shape<dtype, kFfnWarps>(rows.count, [&](auto shape) {
    using Shape = decltype(shape);
    typename Shape::Sums sums;
    multiply_tile<Shape, aligned>(tile, shared.stages, sums);
    store_gate_and_up<Shape>(sums, (rows.count + 7) / 8, hidden);
  });
  __syncthreads();
  quantise_hidden(a, rows, hidden);
}

// Sums of a warp's panel of down to where the pairs' results lie. Called by a whole warp.
template <class Shape>
__device__ __forceinline__ void store_sums(const GroupedFfn& a, const RowBlock& rows,
                                           int64_t first_output, const typename Shape::Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; ++t) {
    if (t * 8 >= rows.count) break;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int r = t * 8 + lane % 4 * 2 + j;
      const ResultRow row = result_row(a, rows.first + r, r < rows.count);
      store_results(a, row, first_output + lane / 4, sums[t][j], sums[t][2 + j]);
    }
  }
}

template <DType dtype, bool aligned>
__global__ void __launch_bounds__(kFfnThreads, kBlocksTogether)
    ffn_quantised_down_kernel(GroupedFfn a) {
  auto& shared = shared_as<FfnShared<dtype>>();
  const int warp = static_cast<int>(threadIdx.y);
  const int thread = warp * kWarpSize + static_cast<int>(threadIdx.x);
  const RowBlock rows = find_rows(a, shared);
  if (rows.group < 0) return;
  if (thread < rows.count) {
    store_shared(&shared.stages.row[thread],
                 static_cast<const unsigned char*>(a.hidden_quantised) +
                     (rows.first + thread) * activation_row_bytes(a.width));
  }
  const int64_t first_output = static_cast<int64_t>(blockIdx.x) * kOutputsOfBlock + warp * kPanel;
  const bool exists = first_output < a.hidden_size;
  const MatrixView* matrix = &a.experts[rows.group].down;
  const QuantisedTile tile{
      exists ? panel_of<dtype>(matrix, a.width, first_output / kPanel) : nullptr,
      static_cast<int>(a.width / kGroup), rows.count};
  __syncthreads();
  with_shape<dtype, kFfnWarps>(rows.count, [&](auto shape) {
    using Shape = decltype(shape);
    typename Shape::Sums sums;
    multiply_tile<Shape, aligned>(tile, shared.stages, sums);
    if (exists) store_sums<Shape>(a, rows, first_output, sums);
  });
}

namespace {

bool rows_are_aligned(const void* rows, int64_t width) {
  return width / kGroup % kStageGroups == 0 && reinterpret_cast<uintptr_t>(rows) % 16 == 0;
}

template <DType dtype>
void launch_ffn(const GroupedFfn& a, cudaStream_t stream) {
  const auto hidden = rows_are_aligned(a.x_quantised, a.hidden_size)
                          ? ffn_quantised_hidden_kernel<dtype, true>
                          : ffn_quantised_hidden_kernel<dtype, false>;
  const auto down = rows_are_aligned(a.hidden_quantised, a.width)
                        ? ffn_quantised_down_kernel<dtype, true>
                        : ffn_quantised_down_kernel<dtype, false>;
  Grid grid{.blocks = dim3(blocks_for(a.width, kHiddenOfBlock),
                           most_row_blocks(a.num_pairs, a.num_groups, kTileRows)),
            .threads = dim3(kWarpSize, kFfnWarps),
            .shared_bytes = sizeof(FfnShared<dtype>),
            .stream = stream};
  allow_shared_bytes(hidden, grid.shared_bytes);
  allow_shared_bytes(down, grid.shared_bytes);
  launch(hidden, grid, a);
  grid.blocks.x = blocks_for(a.hidden_size, kOutputsOfBlock);
  launch(down, grid, a);
}

}  // namespace

void grouped_ffn_quantised(const GroupedFfn& a, cudaStream_t stream) {
  if (a.weight_dtype == DType::kQ4) {
    launch_ffn<DType::kQ4>(a, stream);
  } else {
    launch_ffn<DType::kQ8>(a, stream);
  }
}

}  // namespace colibri::cuda
