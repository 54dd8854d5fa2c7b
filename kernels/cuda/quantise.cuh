// A group of 32 numbers becomes int8 codes and a scale (kernels/op_types.h: QuantiseRows), by eight
// lanes with four numbers each.
#pragma once

#include "base/quantised.h"
#include "kernels/cuda/intrinsics.cuh"

namespace colibri::cuda {

inline constexpr int kPerLane = 4;
inline constexpr int kLanesPerGroup = static_cast<int>(kGroup) / kPerLane;

struct QuantisedFour {
  uint32_t codes;
  float scale;
};

__device__ __forceinline__ uint32_t code_of(float x, float inverse) {
  return static_cast<uint32_t>(round_to_int(x * inverse)) & 0xFFu;
}
__device__ __forceinline__ uint32_t magnitude_bits(float x) { return float_bits(x) & 0x7FFFFFFFu; }
__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

// Called by whole warps; lanes 8 i .. 8 i + 7 have the numbers of one group in order. Magnitudes of
// floats have the order of their bits, with infinity and NaN last.
__device__ __forceinline__ QuantisedFour quantise_four(float4 x) {
  uint32_t bits = larger(larger(magnitude_bits(x.x), magnitude_bits(x.y)),
                         larger(magnitude_bits(x.z), magnitude_bits(x.w)));
  for (int step = 1; step < kLanesPerGroup; step *= 2) {
    bits = larger(bits, shuffle_xor(bits, step));
  }
  if (bits >= 0x7F800000u) return {0, float_from_bits(0x7FC00000u)};
  const float largest = float_from_bits(bits);
  if (largest < 0x1p-100f) return {0, 0.0f};
  const float inverse = divide(127.0f, largest);
  return {code_of(x.x, inverse) | code_of(x.y, inverse) << 8 | code_of(x.z, inverse) << 16 |
              code_of(x.w, inverse) << 24,
          divide(largest, 127.0f)};
}

}  // namespace colibri::cuda
