// Quantised rows times q8 or q4 weights: the dense products of quantised models. What bounds them
// and how is told in kernels/cuda/quantised_tile.cuh. A block has 64 outputs, or 32 where a matrix
// would else give fewer blocks than two for each multiprocessor.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quantised_tile.cuh"

namespace colibri::cuda {

// Several heads are one matrix whose outputs go to several places.
struct QuantisedProducts {
  const unsigned char* x;
  const unsigned char* weight;
  const float* bias;
  float* out;
  int64_t num_tokens, outputs, width;
  int64_t out_stride;
  int64_t head_outputs, out_head_stride;
};

// A warp's panel, whose first output is first_output.
template <class Shape>
__device__ __forceinline__ void store_products(const QuantisedProducts& a, int64_t first_row,
                                               int num_rows, int64_t first_output,
                                               const typename Shape::Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t head = first_output / a.head_outputs;
  float* out = a.out + first_row * a.out_stride + head * a.out_head_stride - head * a.head_outputs;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int64_t n = first_output + lane / 4 + e / 2 * 8;
    if (n >= a.outputs) continue;
    const float bias = a.bias == nullptr ? -0.0f : load(a.bias + n);
#pragma unroll
    for (int t = 0; t < Shape::kRowTiles; ++t) {
      const int r = t * 8 + lane % 4 * 2 + e % 2;
      if (r < num_rows) store(out + r * a.out_stride + n, sums[t][e] + bias);
    }
  }
}

template <DType dtype, int warps, bool aligned>
__global__ void __launch_bounds__(warps* kWarpSize, kBlocksTogether)
    matmul_quantised_kernel(QuantisedProducts a) {
  auto& stages = shared_as<QuantisedStages<dtype, warps>>();
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTileRows;
  const int64_t first_output = (static_cast<int64_t>(blockIdx.x) * warps + warp) * kPanel;
  const bool exists = first_output < a.outputs;
  const int64_t rows_left = a.num_tokens - first_row;
  const QuantisedTile tile{
      exists ? a.weight + first_output / kPanel * panel_bytes(dtype, a.width) : nullptr,
      static_cast<int>(a.width / kGroup),
      static_cast<int>(rows_left < kTileRows ? rows_left : kTileRows)};
  for (int r = warp * kWarpSize + lane; r < tile.num_rows; r += warps * kWarpSize) {
    store_shared(&stages.row[r], a.x + (first_row + r) * activation_row_bytes(a.width));
  }
  __syncthreads();
  with_shape<dtype, warps>(tile.num_rows, [&](auto shape) {
    using Shape = decltype(shape);
    typename Shape::Sums sums;
    multiply_tile<Shape, aligned>(tile, stages, sums);
    if (exists) store_products<Shape>(a, first_row, tile.num_rows, first_output, sums);
  });
}

namespace {

constexpr int64_t kFewOutputs = 8192;  // 64 outputs times 132 multiprocessors, about

template <DType dtype, int warps>
void launch_quantised(const QuantisedProducts& a, cudaStream_t stream) {
  const bool aligned =
      a.width / kGroup % kStageGroups == 0 && reinterpret_cast<uintptr_t>(a.x) % 16 == 0;
  const auto kernel = aligned ? matmul_quantised_kernel<dtype, warps, true>
                              : matmul_quantised_kernel<dtype, warps, false>;
  constexpr size_t kSharedBytes = sizeof(QuantisedStages<dtype, warps>);
  allow_shared_bytes(kernel, kSharedBytes);
  launch(
      kernel,
      {.blocks = dim3(blocks_for(a.outputs, warps * kPanel), blocks_for(a.num_tokens, kTileRows)),
       .threads = dim3(kWarpSize, warps),
       .shared_bytes = kSharedBytes,
       .stream = stream},
      a);
}

void launch_quantised(DType dtype, const QuantisedProducts& a, cudaStream_t stream) {
  const bool few = a.outputs <= kFewOutputs;
  if (dtype == DType::kQ4) {
    few ? launch_quantised<DType::kQ4, 2>(a, stream) : launch_quantised<DType::kQ4, 4>(a, stream);
  } else {
    few ? launch_quantised<DType::kQ8, 2>(a, stream) : launch_quantised<DType::kQ8, 4>(a, stream);
  }
}

}  // namespace

void matmul_quantised(const MatMul& a, cudaStream_t stream) {
  const QuantisedProducts products{.x = static_cast<const unsigned char*>(a.x_quantised),
                                   .weight = static_cast<const unsigned char*>(a.weight.data),
                                   .bias = a.bias,
                                   .out = a.out,
                                   .num_tokens = a.num_tokens,
                                   .outputs = a.weight.rows,
                                   .width = a.weight.cols,
                                   .out_stride = a.out_stride,
                                   .head_outputs = a.weight.rows,
                                   .out_head_stride = 0};
  launch_quantised(a.weight.dtype, products, stream);
}

void batched_matmul_quantised(const BatchedMatMul& a, cudaStream_t stream) {
  if (a.num_heads == 0) return;
  const QuantisedProducts products{.x = static_cast<const unsigned char*>(a.x_quantised),
                                   .weight = static_cast<const unsigned char*>(a.weight.data),
                                   .bias = nullptr,
                                   .out = a.out,
                                   .num_tokens = a.num_tokens,
                                   .outputs = a.weight.rows,
                                   .width = a.weight.cols,
                                   .out_stride = a.out_stride,
                                   .head_outputs = a.weight.rows / a.num_heads,
                                   .out_head_stride = a.out_head_stride};
  launch_quantised(a.weight.dtype, products, stream);
}

}  // namespace colibri::cuda
