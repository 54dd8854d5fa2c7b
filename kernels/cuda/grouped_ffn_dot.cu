// The experts' feed-forward on f32 rows in DOT's order: the f32 mode, whose bits are the CPU's. As
// in matmul_dot.cu each expert's weights are loaded once for eight rows. In the first kernel the
// two outputs of four lanes are gate and up of one hidden value, so that both sums end in the same
// lane.
#include "kernels/cuda/dot.cuh"
#include "kernels/cuda/ffn_results.cuh"
#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

constexpr int kFfnWarps = 4;
constexpr int kFfnBlocksTogether = 3;  // on a multiprocessor
constexpr int kQuads = kWarpSize / kDotLanes;
constexpr int kHiddenPerBlock = kFfnWarps * kQuads;
constexpr int kOutputsPerBlock = kFfnWarps * kQuads * kDotOutputs;
static_assert(kDotOutputs == 2 && kQuads == 8);  // as store_results() has them

struct FfnDotShared {
  RowBlock rows;
};

// The block's rows, found by its first warp.
__device__ __forceinline__ RowBlock rows_of_block(const GroupedFfn& a) {
  auto& shared = shared_as<FfnDotShared>();
  if (threadIdx.y == 0) {
    find_row_block(a.group_begin, a.num_groups, kDotRows, static_cast<int>(blockIdx.y),
                   &shared.rows);
  }
  __syncthreads();
  return load_shared(&shared.rows);
}

template <class W>
__device__ __forceinline__ const W* weights(const MatrixView* matrix) {
  return static_cast<const W*>(load(&matrix->data));
}

// hidden [P, I] = silu(gate x) * up x.
template <bool aligned, class W>
__global__ void __launch_bounds__(kFfnWarps* kWarpSize, kFfnBlocksTogether)
    ffn_dot_hidden_kernel(GroupedFfn a) {
  const RowBlock rows = rows_of_block(a);
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kHiddenPerBlock + threadIdx.y * kQuads;
  if (rows.group < 0 || first >= a.width) return;
  const int64_t n = first + lane / kDotLanes;
  const int64_t weight_row = smaller(n, a.width - 1) * a.hidden_size;
  const ExpertWeights* expert = a.experts + rows.group;
  DotBlock<W> block;
  block.weight[0] = weights<W>(&expert->gate) + weight_row;
  block.weight[1] = weights<W>(&expert->up) + weight_row;
#pragma unroll
  for (int r = 0; r < kDotRows; ++r) {
    const int64_t pair = rows.first + (r < rows.count ? r : 0);
    block.x[r] = a.x + load(a.pair_row + pair) * a.x_stride;
  }
  block.num_rows = rows.count;
  block.width = a.hidden_size;
  const DotSums sums = dot_block<aligned>(block);
#pragma unroll
  for (int i = 0; i < kDotRows / kDotLanes; ++i) {
    const int r = lane % kDotLanes * 2 + i;
    if (r >= rows.count || n >= a.width) continue;
    store(a.hidden + (rows.first + r) * a.width + n,
          silu_times(sums.sum[2 * i], sums.sum[2 * i + 1]));
  }
}

template <bool aligned, class W>
__global__ void __launch_bounds__(kFfnWarps* kWarpSize, kFfnBlocksTogether)
    ffn_dot_down_kernel(GroupedFfn a) {
  const RowBlock rows = rows_of_block(a);
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kOutputsPerBlock +
                        threadIdx.y * (kQuads * kDotOutputs) + lane / kDotLanes;
  if (rows.group < 0 || first - lane / kDotLanes >= a.hidden_size) return;
  const W* weight = weights<W>(&a.experts[rows.group].down);
  DotBlock<W> block;
#pragma unroll
  for (int o = 0; o < kDotOutputs; ++o) {
    block.weight[o] = weight + smaller(first + o * kQuads, a.hidden_size - 1) * a.width;
  }
#pragma unroll
  for (int r = 0; r < kDotRows; ++r) block.x[r] = a.hidden + (rows.first + r) * a.width;
  block.num_rows = rows.count;
  block.width = a.width;
  const DotSums sums = dot_block<aligned>(block);
#pragma unroll
  for (int i = 0; i < kDotRows / kDotLanes; ++i) {
    const int r = lane % kDotLanes * 2 + i;
    const ResultRow row = result_row(a, rows.first + r, r < rows.count);
    store_results(a, row, first, sums.sum[2 * i], sums.sum[2 * i + 1]);
  }
}

namespace {

// Matrices of experts lie on 16 bytes where their rows are a multiple of four long.
template <class W>
void launch_ffn(const GroupedFfn& a, cudaStream_t stream) {
  const unsigned int row_blocks = most_row_blocks(a.num_pairs, a.num_groups, kDotRows);
  Grid grid{.blocks = dim3(blocks_for(a.width, kHiddenPerBlock), row_blocks),
            .threads = dim3(kWarpSize, kFfnWarps),
            .shared_bytes = sizeof(FfnDotShared),
            .stream = stream};
  const bool x_aligned = (a.hidden_size | a.x_stride) % 4 == 0 && lies_on(a.x, 16);
  launch(x_aligned ? ffn_dot_hidden_kernel<true, W> : ffn_dot_hidden_kernel<false, W>, grid, a);
  grid.blocks.x = blocks_for(a.hidden_size, kOutputsPerBlock);
  const bool hidden_aligned = a.width % 4 == 0 && lies_on(a.hidden, 16);
  launch(hidden_aligned ? ffn_dot_down_kernel<true, W> : ffn_dot_down_kernel<false, W>, grid, a);
}

}  // namespace

void grouped_ffn_dot(const GroupedFfn& a, cudaStream_t stream) {
  if (a.weight_dtype == DType::kBF16) {
    launch_ffn<uint16_t>(a, stream);
  } else {
    launch_ffn<float>(a, stream);
  }
}

}  // namespace colibri::cuda
