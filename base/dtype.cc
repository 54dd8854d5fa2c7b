#include "base/dtype.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace colibri {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kI8:
      return 1;
  }
  fail(ErrorKind::kInternal, "DType value ", static_cast<int>(dtype));
}

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI8:
      return "i8";
    case DType::kI32:
      return "i32";
  }
  return "unknown";
}

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24 is exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23;
  return std::bit_cast<float>(sign | wide | (fraction << 13));
}

void widen_to_float(DType dtype, const void* source, size_t count, float* out) {
  const auto* bytes = static_cast<const unsigned char*>(source);
  if (dtype == DType::kF32) {
    std::memcpy(out, bytes, count * sizeof(float));
    return;
  }
  check(dtype == DType::kBF16 || dtype == DType::kF16, "cannot widen ", to_string(dtype));
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof bits);
    out[i] = dtype == DType::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
}

}  // namespace colibri
