// Rows become int8 codes with a scale for each group of 32, or bf16. Both are bound by memory, and
// by the launch for a decode step's few rows. A lane takes four numbers, eight lanes a group, so
// that a warp reads 512 bytes and writes four groups of codes in one go.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/order.cuh"
#include "kernels/cuda/quantise.cuh"

namespace colibri::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kPerBlock = kThreads * kPerLane;  // numbers of one row

// Four numbers at x, of which `count` exist.
template <bool whole>
__device__ __forceinline__ float4 load_four(const float* x, int64_t count) {
  if constexpr (whole) return load(reinterpret_cast<const float4*>(x));
  return {count > 0 ? load(x) : 0.0f, count > 1 ? load(x + 1) : 0.0f,
          count > 2 ? load(x + 2) : 0.0f, count > 3 ? load(x + 3) : 0.0f};
}

// Where this thread works: blocks go along a row first.
struct Place {
  int64_t row;
  int64_t column;
};
__device__ __forceinline__ Place place_of_thread(int64_t width) {
  const int64_t blocks_of_row = (width + kPerBlock - 1) / kPerBlock;
  const int64_t block = blockIdx.x;
  return {block / blocks_of_row,
          block % blocks_of_row * kPerBlock + static_cast<int64_t>(threadIdx.x) * kPerLane};
}

}  // namespace

// A group that is not there is worked out as zeros, because its lanes must meet the others.
template <bool aligned>
__global__ void quantise_rows_kernel(QuantiseRows a) {
  const Place at = place_of_thread(a.width);
  const bool exists = at.column < a.width;
  const float4 x =
      exists ? load_four<aligned>(a.x + at.row * a.x_stride + at.column, kPerLane) : float4{};
  const QuantisedFour four = quantise_four(x);
  if (!exists) return;
  auto* row = static_cast<unsigned char*>(a.out) + at.row * (a.width + a.width / kGroup * 4);
  store(reinterpret_cast<uint32_t*>(row + at.column), four.codes);
  if (threadIdx.x % kLanesPerGroup != 0) return;
  store(reinterpret_cast<float*>(row + a.width) + at.column / kGroup, four.scale);
}

template <bool aligned>
__global__ void round_rows_kernel(RoundRows a) {
  const Place at = place_of_thread(a.width);
  if (at.column >= a.width) return;
  const int64_t count = a.width - at.column;
  const float4 x = load_four<aligned>(a.x + at.row * a.x_stride + at.column, count);
  uint16_t* out = a.out + at.row * a.width + at.column;
  if constexpr (aligned) {
    store(reinterpret_cast<uint2*>(out), uint2{to_bf16_pair(x.x, x.y), to_bf16_pair(x.z, x.w)});
  } else {
    const float values[kPerLane] = {x.x, x.y, x.z, x.w};
    for (int i = 0; i < kPerLane; ++i) {
      if (i < count) store(out + i, to_bf16(values[i]));
    }
  }
}

namespace {

template <class Op>
bool is_aligned(const Op& a, size_t out_bytes) {
  return a.width % kPerLane == 0 && a.x_stride % kPerLane == 0 &&
         reinterpret_cast<uintptr_t>(a.x) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(a.out) % out_bytes == 0;
}

template <class Op>
Grid grid_of(const Op& a, cudaStream_t stream) {
  return {.blocks = blocks_for(a.num_rows * blocks_for(a.width, kPerBlock), 1),
          .threads = dim3(kThreads),
          .stream = stream};
}

}  // namespace

void quantise_rows(const QuantiseRows& a, cudaStream_t stream) {
  launch(is_aligned(a, 4) ? quantise_rows_kernel<true> : quantise_rows_kernel<false>,
         grid_of(a, stream), a);
}

void round_rows(const RoundRows& a, cudaStream_t stream) {
  launch(is_aligned(a, 8) ? round_rows_kernel<true> : round_rows_kernel<false>, grid_of(a, stream),
         a);
}

}  // namespace colibri::cuda
