// What the tests of quantised products share: rows and weights packed by hand, and QDOT written
// plainly from its contract (kernels/op_types.h, base/quantised.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantised.h"
#include "tests/kernels/kernel_rig.h"

namespace colibri {

// A packed matrix and the numbers in it.
struct PackedMatrix {
  // `code(n, k)` and `scale_bits(n, group)` give the numbers; padding rows get both too, so that a
  // product that lets them out is seen.
  template <class Code, class ScaleBits>
  PackedMatrix(DType type, int64_t num_rows, int64_t num_cols, const Code& code,
               const ScaleBits& scale_bits)
      : dtype(type),
        rows(num_rows),
        cols(num_cols),
        bytes(static_cast<size_t>(matrix_bytes(type, num_rows, num_cols))) {
    for (int64_t n = 0; n < (rows + 15) / 16 * 16; ++n) {
      for (int64_t k = 0; k < cols; ++k) put_code(n, k, code(n, k));
      for (int64_t g = 0; g < cols / 32; ++g) put_scale(n, g, scale_bits(n, g));
    }
  }
  // Codes over the whole range; scales of either sign, subnormal ones among them.
  static PackedMatrix random(DType type, int64_t rows, int64_t cols, uint32_t seed);

  MatrixView view() const { return {bytes.data(), dtype, rows, cols}; }
  int code(int64_t n, int64_t k) const;
  float scale(int64_t n, int64_t group) const;

  DType dtype;
  int64_t rows, cols;
  std::vector<unsigned char> bytes;

 private:
  void put_code(int64_t n, int64_t k, int code);
  void put_scale(int64_t n, int64_t group, uint16_t bits);
};

using QuantisedRows = std::vector<unsigned char>;

// Rows of x [num_rows, width], x_stride apart, quantised as QuantiseRows says.
QuantisedRows plain_quantise(const float* x, int64_t num_rows, int64_t width, int64_t x_stride);

// Row `row` of rows of w.cols values, times row n of w.
float plain_qdot(const QuantisedRows& rows, int64_t row, const PackedMatrix& w, int64_t n);

}  // namespace colibri
