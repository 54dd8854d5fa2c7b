// Element types of weights and activations, and the exact conversions between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace colibri {

// kI8 also names rows of activations quantised in groups (base/quantised.h), kQ8 and kQ4 packed
// weights: the last two have no single element, see matrix_bytes().
enum class DType : uint8_t { kF32, kBF16, kF16, kI8, kI32, kF8E4M3, kQ8, kQ4 };

constexpr bool is_quantised(DType dtype) { return dtype == DType::kQ8 || dtype == DType::kQ4; }

// Bytes of one element. Fails with kInternal for kQ8 and kQ4.
size_t size_of(DType dtype);

// "f32", "bf16", ...
const char* to_string(DType dtype);

// bf16 is the upper half of an f32: widening is exact.
float bf16_to_float(uint16_t bits);

// Rounds to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
uint16_t float_to_bf16(float value);

// IEEE half: widening is exact, subnormals included.
float f16_to_float(uint16_t bits);

// Rounds to nearest, ties to even; overflow becomes infinity, NaN stays NaN.
uint16_t float_to_f16(float value);

// OCP E4M3 (bias 7, no infinity, 0x7f and 0xff are NaN): widening is exact.
float f8_e4m3_to_float(uint8_t bits);

// Widens `count` elements of `dtype` (f32, bf16, f16 or f8_e4m3) at `source`, which may be
// unaligned, into `out`. Fails with kInternal for other types.
void widen_to_float(DType dtype, const void* source, size_t count, float* out);

}  // namespace colibri
