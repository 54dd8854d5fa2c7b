// The sums of the numeric contract (kernels/op_types.h: DOT, SUM) and its functions, in the order
// that every backend keeps.
#pragma once

#include "kernels/cuda/intrinsics.cuh"

namespace colibri::cuda {

inline constexpr int kChains = 16;

// The tree over sixteen chains, chain j in lane j of each half warp; every lane gets the sum.
__device__ __forceinline__ float sum_of_chains(float chain) {
  for (int step = 8; step >= 1; step /= 2) chain = chain + shuffle_xor(chain, step);
  return chain;
}

// exp as kernels/cpu/math.inc computes it, operation by operation.
__device__ __forceinline__ float exp_exact(float x) {
  x = x > -104.0f ? x : (x != x ? x : -104.0f);
  x = x < 89.0f ? x : (x != x ? x : 89.0f);
  const float magic = 12582912.0f;
  const float n = (x * 1.44269504f + magic) - magic;
  float r = fma_exact(n, -0.693359375f, x);
  r = fma_exact(n, 2.12194440e-4f, r);
  float p = 1.0f / 5040;
  p = fma_exact(p, r, 1.0f / 720);
  p = fma_exact(p, r, 1.0f / 120);
  p = fma_exact(p, r, 1.0f / 24);
  p = fma_exact(p, r, 1.0f / 6);
  p = fma_exact(p, r, 0.5f);
  p = fma_exact(p, r, 1.0f);
  p = fma_exact(p, r, 1.0f);
  const int whole = round_to_int(n), half = whole >> 1;
  const float first = float_from_bits(static_cast<uint32_t>(half + 127) << 23);
  const float second = float_from_bits(static_cast<uint32_t>(whole - half + 127) << 23);
  return (p * first) * second;
}

__device__ __forceinline__ float one_plus_exp_of_minus(float x) { return 1.0f + exp_exact(-x); }
__device__ __forceinline__ float silu_times(float gate, float up) {
  return divide(gate, one_plus_exp_of_minus(gate)) * up;
}

// Nearest bf16, ties to even, as base/dtype.h does it; and back.
__device__ __forceinline__ uint16_t to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
__device__ __forceinline__ float from_bf16(uint16_t bits) {
  return float_from_bits(static_cast<uint32_t>(bits) << 16);
}

// The first in the low half, as it lies in memory.
__device__ __forceinline__ uint32_t to_bf16_pair(float low, float high) {
  return static_cast<uint32_t>(to_bf16(low)) | static_cast<uint32_t>(to_bf16(high)) << 16;
}

}  // namespace colibri::cuda
