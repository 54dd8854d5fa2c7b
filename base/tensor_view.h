// A matrix somebody else owns: what kernels take as weights.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/quantised.h"

namespace colibri {

// [rows, cols], row-major, rows contiguous; q8 and q4: packed as base/quantised.h says. In a
// product y = W x, rows are outputs, cols inputs.
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;

  bool empty() const { return data == nullptr; }
  int64_t size_bytes() const { return matrix_bytes(dtype, rows, cols); }
  // Rows [begin, begin + count) of this matrix; q8 and q4: begin is a multiple of kPanelRows.
  MatrixView slice_rows(int64_t begin, int64_t count) const {
    const auto* first = static_cast<const unsigned char*>(data) + matrix_bytes(dtype, begin, cols);
    return {first, dtype, count, cols};
  }
};

}  // namespace colibri
