// Element types of weights and activations, and the exact conversions between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace colibri {

enum class DType : uint8_t { kF32, kBF16, kF16, kI8, kI32 };

// Bytes of one element.
size_t size_of(DType dtype);

// "f32", "bf16", ...
const char* to_string(DType dtype);

// bf16 is the upper half of an f32: widening is exact.
float bf16_to_float(uint16_t bits);

// Rounds to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
uint16_t float_to_bf16(float value);

// IEEE half: widening is exact, subnormals included.
float f16_to_float(uint16_t bits);

// Widens `count` elements of `dtype` (f32, bf16 or f16) at `source`, which may be unaligned, into
// `out`. Fails with kInternal for other types.
void widen_to_float(DType dtype, const void* source, size_t count, float* out);

}  // namespace colibri
