// q8 and q4: weights in groups of 32 inputs with one f16 scale each, and activations quantised the
// same way for the products. The layout is the same in memory, in a .colibri file and for every
// x86 instruction set (docs/container.md).
//
//   weight      code * scale: q8 code -127..127, q4 code -8..7 (kept as code + 8 in four bits)
//   panel       16 consecutive outputs (rows; the last panel is filled up with zeros):
//                 scales  f16 [cols / 32][16], padded with zeros to a multiple of 64 bytes
//                 codes   per group of 32 inputs k, as the byte products of four want them:
//                         q8  int8  [8][16][4]: byte (q, row, j) is input k = 4 q + j
//                         q4  uint8 [4][16][4]: byte (q, row, j) holds input 4 q + j in its low and
//                             input 16 + 4 q + j in its high four bits
//   matrix      its panels, one after the other: every panel is a multiple of 64 bytes long
//   activation  a row of `width` values: int8 codes [width], then f32 scales [width / 32]
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace colibri {

inline constexpr int64_t kGroup = 32;      // inputs that share a scale
inline constexpr int64_t kPanelRows = 16;  // outputs packed together

// Bytes of the scales at the front of a panel, and of a whole panel.
constexpr int64_t panel_scale_bytes(int64_t cols) { return (cols / kGroup + 1) / 2 * 64; }
constexpr int64_t panel_bytes(DType dtype, int64_t cols) {
  const int64_t code_bytes = dtype == DType::kQ4 ? kPanelRows * cols / 2 : kPanelRows * cols;
  return panel_scale_bytes(cols) + code_bytes;
}

// Bytes of a matrix as it lies in memory. q8, q4: cols is a multiple of kGroup.
inline int64_t matrix_bytes(DType dtype, int64_t rows, int64_t cols) {
  if (!is_quantised(dtype)) return rows * cols * static_cast<int64_t>(size_of(dtype));
  return (rows + kPanelRows - 1) / kPanelRows * panel_bytes(dtype, cols);
}

// Bytes of one quantised activation row; 1.125 a value.
constexpr int64_t activation_row_bytes(int64_t width) {
  return width + width / kGroup * static_cast<int64_t>(sizeof(float));
}

// Raised when quantise_matrix() gives other bytes than before: a conversion that an older build began
// must not go on with it.
inline constexpr uint64_t kEncoderVersion = 1;

// Packs rows [0, rows) of `wide` [rows, cols] f32 into `out` of matrix_bytes(dtype, rows, cols).
// The encoder tries several scales a group and keeps the one with the smallest squared error; among
// them is the scale of plain rounding (GGUF's Q8_0 and Q4_0, whose values these are). Same input,
// same bytes, on every machine. False, `out` unspecified, when a value is not finite or past what
// an f16 scale reaches. Cost: tests/bench/kernels_bench.
bool quantise_matrix(DType dtype, const float* wide, int64_t rows, int64_t cols, void* out);

// The weights a packed matrix stands for: out [rows, cols] f32, exactly code * scale.
void decode_matrix(DType dtype, const void* packed, int64_t rows, int64_t cols, float* out);

}  // namespace colibri
