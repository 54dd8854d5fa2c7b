// DOT (kernels/op_types.h) of blocks of outputs and rows. Four lanes share an output, lane q holds
// chains 4 q .. 4 q + 3, so that a lane loads four inputs at once and a warp reads whole sectors of
// eight weight rows. A warp has kOutputs outputs per four lanes times kRows rows in registers: a
// weight is loaded once for all rows of the block, and every load serves kRows products.
#pragma once

#include "kernels/cuda/order.cuh"
#include "kernels/op_types.h"

namespace colibri::cuda {

inline constexpr int kDotRows = 8;     // rows of a block
inline constexpr int kDotOutputs = 2;  // outputs of four lanes
inline constexpr int kDotSums = kDotRows * kDotOutputs;
inline constexpr int kDotLanes = 4;
inline constexpr int kDotUnroll = 4;  // steps of sixteen inputs whose loads are in flight together

__device__ __forceinline__ int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline bool lies_on(const void* p, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

// Four numbers from k on; what is past the row's `width` is +0. Aligned: width is a multiple of
// four and rows lie on 16 bytes (bf16: 8).
template <bool aligned, class T>
__device__ __forceinline__ float4 four_inputs(const T* row, int64_t k, int64_t width) {
  constexpr bool is_float = sizeof(T) == sizeof(float);
  float4 v = {0, 0, 0, 0};
  if constexpr (aligned) {
    if (k >= width) return v;
    if constexpr (is_float) return load(reinterpret_cast<const float4*>(row + k));
    const uint2 pairs = load(reinterpret_cast<const uint2*>(row + k));
    return {float_from_bits(pairs.x << 16), float_from_bits(pairs.x & 0xFFFF0000u),
            float_from_bits(pairs.y << 16), float_from_bits(pairs.y & 0xFFFF0000u)};
  } else {
    const auto one = [&](int64_t i) {
      if (i >= width) return 0.0f;
      if constexpr (is_float) {
        return load(row + i);
      } else {
        return from_bf16(load(row + i));
      }
    };
    return {one(k), one(k + 1), one(k + 2), one(k + 3)};
  }
}

__device__ __forceinline__ void add_four(float4 x, float4 w, float (&chains)[4]) {
  chains[0] = fma_exact(x.x, w.x, chains[0]);
  chains[1] = fma_exact(x.y, w.y, chains[1]);
  chains[2] = fma_exact(x.z, w.z, chains[2]);
  chains[3] = fma_exact(x.w, w.w, chains[3]);
}

// What a warp multiplies. Weight rows past the last output repeat it; sums of rows past num_rows
// are left at zero.
template <class W>
struct DotBlock {
  const W* weight[kDotOutputs];  // this lane's outputs
  const float* x[kDotRows];
  int num_rows;
  int64_t width;
};

// Sum r * kDotOutputs + o is of row r and output o.
using DotChains = float[kDotSums][4];

template <bool aligned, int steps, class W>
__device__ __forceinline__ void add_steps(const DotBlock<W>& a, int64_t k, DotChains& chains) {
  float4 w[steps][kDotOutputs];
#pragma unroll
  for (int s = 0; s < steps; ++s) {
#pragma unroll
    for (int o = 0; o < kDotOutputs; ++o) {
      w[s][o] = four_inputs<aligned>(a.weight[o], k + s * kChains, a.width);
    }
  }
#pragma unroll
  for (int r = 0; r < kDotRows; ++r) {
    if (r >= a.num_rows) break;
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      const float4 x = four_inputs<aligned>(a.x[r], k + s * kChains, a.width);
#pragma unroll
      for (int o = 0; o < kDotOutputs; ++o) add_four(x, w[s][o], chains[r * kDotOutputs + o]);
    }
  }
}

// Lanes whose numbers differ by `step` add half of their sums each: the sums that this lane keeps
// come first.
template <int step, int count>
__device__ __forceinline__ void join_chains(bool is_upper, DotChains& chains) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float& low = chains[i][j];
      const float high = chains[i + count / 2][j];
      const float received = shuffle_xor(is_upper ? low : high, step);
      low = (is_upper ? high : low) + received;
    }
  }
}

// The trees. Lane q of four gets sums 4 q .. 4 q + 3, which are those of rows 2 q and 2 q + 1.
struct DotSums {
  float sum[kDotSums / kDotLanes];
};
__device__ __forceinline__ DotSums sum_chains(DotChains& chains) {
  const int q = static_cast<int>(threadIdx.x) % kDotLanes;
  join_chains<2, kDotSums>(q >= 2, chains);            // s8
  join_chains<1, kDotSums / 2>((q & 1) != 0, chains);  // s4
  DotSums sums;
#pragma unroll
  for (int i = 0; i < kDotSums / kDotLanes; ++i) {
    sums.sum[i] = (chains[i][0] + chains[i][2]) + (chains[i][1] + chains[i][3]);
  }
  return sums;
}

template <bool aligned, class W>
__device__ __forceinline__ DotSums dot_block(const DotBlock<W>& a) {
  DotChains chains;
#pragma unroll
  for (int i = 0; i < kDotSums; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) chains[i][j] = 0;
  }
  const int64_t first = static_cast<int64_t>(threadIdx.x) % kDotLanes * 4;
  const int64_t steps = (a.width + kChains - 1) / kChains;
  const int64_t whole = steps / kDotUnroll * kDotUnroll;
  for (int64_t s = 0; s < whole; s += kDotUnroll) {
    add_steps<aligned, kDotUnroll>(a, first + s * kChains, chains);
  }
  for (int64_t s = whole; s < steps; ++s) add_steps<aligned, 1>(a, first + s * kChains, chains);
  return sum_chains(chains);
}

}  // namespace colibri::cuda
