#include "tests/kernels/quantised_rig.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace colibri {
namespace {

// Where the code of (n, k) lies in the packed bytes; in q4 the input of the upper half of a group
// has the high four bits of the byte.
int64_t code_offset(const PackedMatrix& m, int64_t n, int64_t k) {
  const bool is_q4 = m.dtype == DType::kQ4;
  const int64_t panel = n / 16, lane = n % 16, group = k / 32;
  const int64_t input = is_q4 ? k % 32 % 16 : k % 32;
  const int64_t scale_bytes = (m.cols / 32 * 32 + 63) / 64 * 64;
  const int64_t panel_size = scale_bytes + m.cols * (is_q4 ? 8 : 16);
  return panel * panel_size + scale_bytes + group * (is_q4 ? 256 : 512) + input / 4 * 64 +
         lane * 4 + input % 4;
}

int64_t scale_offset(const PackedMatrix& m, int64_t n, int64_t group) {
  const int64_t scale_bytes = (m.cols / 32 * 32 + 63) / 64 * 64;
  const int64_t panel_size = scale_bytes + m.cols * (m.dtype == DType::kQ4 ? 8 : 16);
  return n / 16 * panel_size + (group * 16 + n % 16) * 2;
}

// 16 bits of a half, from the definition.
float half_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

void quantise_group(const float* x, int8_t* codes, float& scale) {
  float most = 0;
  bool is_finite = true;
  for (int k = 0; k < 32; ++k) {
    is_finite = is_finite && std::isfinite(x[k]);
    most = std::fmax(most, std::fabs(x[k]));
  }
  std::memset(codes, 0, 32);
  scale = is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  if (!is_finite || most < std::ldexp(1.0f, -100)) return;
  scale = most / 127.0f;
  const float inverse = 127.0f / most;
  for (int k = 0; k < 32; ++k) codes[k] = static_cast<int8_t>(std::nearbyint(x[k] * inverse));
}

}  // namespace

PackedMatrix PackedMatrix::random(DType type, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 engine(seed);
  return PackedMatrix(
      type, rows, cols,
      [&](int64_t, int64_t) {
        const int draw = static_cast<int>(engine() >> 8);
        return type == DType::kQ4 ? draw % 16 - 8 : draw % 255 - 127;
      },
      [&](int64_t, int64_t) {
        const auto bits = static_cast<uint16_t>(engine());
        const bool is_finite = (bits & 0x7C00) != 0x7C00;
        return is_finite ? bits : static_cast<uint16_t>(bits & 0x83FF);
      });
}

int PackedMatrix::code(int64_t n, int64_t k) const {
  const unsigned char byte = bytes[static_cast<size_t>(code_offset(*this, n, k))];
  if (dtype == DType::kQ8) return static_cast<int8_t>(byte);
  return (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
}

void PackedMatrix::put_code(int64_t n, int64_t k, int code) {
  unsigned char& byte = bytes[static_cast<size_t>(code_offset(*this, n, k))];
  if (dtype == DType::kQ8) {
    byte = static_cast<unsigned char>(code);
  } else {
    byte = static_cast<unsigned char>(byte | (code + 8) << (k % 32 < 16 ? 0 : 4));
  }
}

float PackedMatrix::scale(int64_t n, int64_t group) const {
  uint16_t bits;
  std::memcpy(&bits, &bytes[static_cast<size_t>(scale_offset(*this, n, group))], sizeof bits);
  return half_to_float(bits);
}

void PackedMatrix::put_scale(int64_t n, int64_t group, uint16_t bits) {
  std::memcpy(&bytes[static_cast<size_t>(scale_offset(*this, n, group))], &bits, sizeof bits);
}

QuantisedRows plain_quantise(const float* x, int64_t num_rows, int64_t width, int64_t x_stride) {
  const int64_t row_bytes = width + width / 32 * 4;
  QuantisedRows rows(static_cast<size_t>(num_rows * row_bytes));
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t g = 0; g < width / 32; ++g) {
      int8_t codes[32];
      float scale;
      quantise_group(x + row * x_stride + g * 32, codes, scale);
      std::memcpy(&rows[static_cast<size_t>(row * row_bytes + g * 32)], codes, sizeof codes);
      std::memcpy(&rows[static_cast<size_t>(row * row_bytes + width + g * 4)], &scale, 4);
    }
  }
  return rows;
}

float plain_qdot(const QuantisedRows& rows, int64_t row, const PackedMatrix& w, int64_t n) {
  const unsigned char* x = rows.data() + row * (w.cols + w.cols / 32 * 4);
  float acc = 0;
  for (int64_t g = 0; g < w.cols / 32; ++g) {
    int32_t dot = 0;
    for (int64_t k = g * 32; k < g * 32 + 32; ++k) dot += w.code(n, k) * static_cast<int8_t>(x[k]);
    float scale;
    std::memcpy(&scale, x + w.cols + g * 4, sizeof scale);
    const float both = w.scale(n, g) * scale;
    acc = std::fmaf(static_cast<float>(dot), both, acc);
  }
  return acc;
}

}  // namespace colibri
