// f32 rows times f32 or bf16 weights in DOT's order: router, logits and every product of the f32
// mode. Bound by reading the weights up to about eight rows, by the multiply-adds beyond: each
// weight is loaded once for eight rows and used at once by sixteen products of a lane. A warp has
// sixteen outputs. Few rows of a matrix with few outputs go another way to the same bits
// (kernels/cuda/dot_narrow.cuh).
#include "kernels/cuda/dot.cuh"
#include "kernels/cuda/dot_narrow.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

constexpr int kDotWarps = 4;
constexpr int kDotBlocksTogether = 3;  // on a multiprocessor
static_assert(kDotWarps * kWarpSize == kNarrowThreads);
constexpr int kWarpOutputs = kWarpSize / kDotLanes * kDotOutputs;
constexpr int kBlockOutputs = kDotWarps * kWarpOutputs;

// A matmul is one head.
struct DotProducts {
  const float* x;
  const void* weight;  // [heads * outputs, width]
  const float* bias;
  float* out;
  int64_t num_tokens, outputs, width;
  int64_t x_stride, x_head_stride, out_stride, out_head_stride;
  bool is_narrow;
};

template <class W>
__device__ __forceinline__ void matmul_narrow_block(const DotProducts& a) {
  const int64_t first_output = static_cast<int64_t>(blockIdx.x) * kNarrowOutputs;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kDotRows;
  const int thread = static_cast<int>(threadIdx.y) * kWarpSize + static_cast<int>(threadIdx.x);
  const NarrowBlock<W> block{
      .weight = static_cast<const W*>(a.weight) + first_output * a.width,
      .x = a.x + first_row * a.x_stride,
      .x_stride = a.x_stride,
      .width = a.width,
      .num_outputs = static_cast<int>(smaller(a.outputs - first_output, kNarrowOutputs)),
      .num_rows = static_cast<int>(smaller(a.num_tokens - first_row, kDotRows))};
  const NarrowSums sums = multiply_narrow(block, thread, shared_as<NarrowStages<W>>());
  const NarrowPlace place = narrow_place(thread);
  if (thread % kChains != 0 || place.output >= block.num_outputs) return;
  const int64_t n = first_output + place.output;
  const float bias = a.bias == nullptr ? -0.0f : load(a.bias + n);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (place.row[i] >= block.num_rows) continue;
    store(a.out + (first_row + place.row[i]) * a.out_stride + n, sums.sum[i] + bias);
  }
}

template <bool aligned, class W>
__global__ void __launch_bounds__(kDotWarps* kWarpSize, kDotBlocksTogether)
    matmul_dot_kernel(DotProducts a) {
  if constexpr (aligned) {
    if (a.is_narrow) return matmul_narrow_block<W>(a);
  }
  const int64_t head = blockIdx.z;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kDotRows;
  const int64_t first_output =
      static_cast<int64_t>(blockIdx.x) * kBlockOutputs + threadIdx.y * kWarpOutputs;
  if (first_output >= a.outputs) return;
  const int lane = static_cast<int>(threadIdx.x);
  const W* weight = static_cast<const W*>(a.weight) + head * a.outputs * a.width;
  int64_t output[kDotOutputs];
  DotBlock<W> block;
#pragma unroll
  for (int o = 0; o < kDotOutputs; ++o) {
    output[o] = first_output + o * (kWarpSize / kDotLanes) + lane / kDotLanes;
    block.weight[o] = weight + smaller(output[o], a.outputs - 1) * a.width;
  }
#pragma unroll
  for (int r = 0; r < kDotRows; ++r) {
    block.x[r] = a.x + (first_row + r) * a.x_stride + head * a.x_head_stride;
  }
  block.num_rows = static_cast<int>(smaller(a.num_tokens - first_row, kDotRows));
  block.width = a.width;
  const DotSums sums = dot_block<aligned>(block);
#pragma unroll
  for (int i = 0; i < kDotSums / kDotLanes; ++i) {
    const int r = lane % kDotLanes * 2 + i / kDotOutputs;
    const int64_t n = output[i % kDotOutputs];
    if (r >= block.num_rows || n >= a.outputs) continue;
    const float bias = a.bias == nullptr ? -0.0f : load(a.bias + n);
    store(a.out + (first_row + r) * a.out_stride + head * a.out_head_stride + n,
          sums.sum[i] + bias);
  }
}

namespace {

bool is_multiple_of_four(const DotProducts& a) {
  return (a.width | a.x_stride | a.x_head_stride) % 4 == 0;
}

constexpr int64_t kNarrowMatrix = 2048;  // outputs
constexpr int64_t kNarrowTokens = 2 * kDotRows;

// How the work is cut, never an order of sums.
template <class W>
bool is_narrow(const DotProducts& a, int64_t heads) {
  return heads == 1 && a.outputs <= kNarrowMatrix && a.num_tokens <= kNarrowTokens &&
         a.width * sizeof(W) % 16 == 0 && lies_on(a.weight, 16);
}

template <class W>
void launch_dot(DotProducts a, int64_t heads, cudaStream_t stream) {
  const bool aligned =
      is_multiple_of_four(a) && lies_on(a.x, 16) && lies_on(a.weight, 4 * sizeof(W));
  a.is_narrow = aligned && is_narrow<W>(a, heads);
  const auto kernel = aligned ? matmul_dot_kernel<true, W> : matmul_dot_kernel<false, W>;
  if (a.is_narrow) allow_shared_bytes(kernel, sizeof(NarrowStages<W>));
  launch(kernel,
         {.blocks = dim3(blocks_for(a.outputs, a.is_narrow ? kNarrowOutputs : kBlockOutputs),
                         blocks_for(a.num_tokens, kDotRows), static_cast<unsigned int>(heads)),
          .threads = dim3(kWarpSize, kDotWarps),
          .shared_bytes = a.is_narrow ? sizeof(NarrowStages<W>) : 0,
          .stream = stream},
         a);
}

void launch_dot(const MatrixView& weight, const DotProducts& a, int64_t heads,
                cudaStream_t stream) {
  if (weight.dtype == DType::kBF16) {
    launch_dot<uint16_t>(a, heads, stream);
  } else {
    launch_dot<float>(a, heads, stream);
  }
}

}  // namespace

void matmul_dot(const MatMul& a, cudaStream_t stream) {
  const DotProducts products{.x = a.x,
                             .weight = a.weight.data,
                             .bias = a.bias,
                             .out = a.out,
                             .num_tokens = a.num_tokens,
                             .outputs = a.weight.rows,
                             .width = a.weight.cols,
                             .x_stride = a.x_stride,
                             .x_head_stride = 0,
                             .out_stride = a.out_stride,
                             .out_head_stride = 0,
                             .is_narrow = false};
  launch_dot(a.weight, products, 1, stream);
}

void batched_matmul_dot(const BatchedMatMul& a, cudaStream_t stream) {
  if (a.num_heads == 0) return;
  const DotProducts products{.x = a.x,
                             .weight = a.weight.data,
                             .bias = nullptr,
                             .out = a.out,
                             .num_tokens = a.num_tokens,
                             .outputs = a.weight.rows / a.num_heads,
                             .width = a.weight.cols,
                             .x_stride = a.x_stride,
                             .x_head_stride = a.x_head_stride,
                             .out_stride = a.out_stride,
                             .out_head_stride = a.out_head_stride,
                             .is_narrow = false};
  launch_dot(a.weight, products, a.num_heads, stream);
}

}  // namespace colibri::cuda
