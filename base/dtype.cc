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
    case DType::kF8E4M3:
      return 1;
    case DType::kQ8:
    case DType::kQ4:
      break;
  }
  fail(ErrorKind::kInternal, "no single element has the type ", to_string(dtype));
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
    case DType::kF8E4M3:
      return "f8_e4m3";
    case DType::kQ8:
      return "q8";
    case DType::kQ4:
      return "q4";
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

uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 leaves a multiple of 2^-24, rounded to even, in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float f8_e4m3_to_float(uint8_t bits) {
  const uint32_t sign = uint32_t{bits & 0x80u} << 24;
  const uint32_t exponent = (bits >> 3) & 0xfu, fraction = bits & 7u;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 15 && fraction == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  return std::bit_cast<float>(sign | (exponent + 120u) << 23 | fraction << 20);
}

namespace {

void widen_f8(const unsigned char* bytes, size_t count, float* out) {
  float table[256];
  for (unsigned i = 0; i < 256; ++i) table[i] = f8_e4m3_to_float(static_cast<uint8_t>(i));
  for (size_t i = 0; i < count; ++i) out[i] = table[bytes[i]];
}

}  // namespace

void widen_to_float(DType dtype, const void* source, size_t count, float* out) {
  const auto* bytes = static_cast<const unsigned char*>(source);
  if (dtype == DType::kF32) {
    std::memcpy(out, bytes, count * sizeof(float));
    return;
  }
  if (dtype == DType::kF8E4M3) return widen_f8(bytes, count, out);
  check(dtype == DType::kBF16 || dtype == DType::kF16, "cannot widen ", to_string(dtype));
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof bits);
    out[i] = dtype == DType::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
}

}  // namespace colibri
