// What the dense products and the experts' feed-forward share: a product of either kind of weights,
// its slices, and how much work it is. A slice of outputs or rows changes no output.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/quantised.h"
#include "kernels/cpu/cpu_ops.h"

namespace colibri {

// Weights of f32 or bf16: all of `weight` times rows x_stride floats apart.
inline DotRows dot_product(const float* x, int64_t x_stride, const MatrixView& weight) {
  return {.x = x,
          .x_stride = x_stride,
          .weight = weight.data,
          .weight_is_bf16 = weight.dtype == DType::kBF16,
          .num_outputs = weight.rows,
          .width = weight.cols};
}

// Weights of q8 or q4: all of `weight` times quantised rows.
inline QdotRows quantised_product(const void* x, const MatrixView& weight) {
  return {.x = x,
          .x_row_bytes = activation_row_bytes(weight.cols),
          .weight = weight.data,
          .weight_is_q4 = weight.dtype == DType::kQ4,
          .panel_bytes = panel_bytes(weight.dtype, weight.cols),
          .panel_scale_bytes = panel_scale_bytes(weight.cols),
          .num_outputs = weight.rows,
          .width = weight.cols};
}

inline void run_product(const KernelTable& kernels, const DotRows& rows) { kernels.dot_rows(rows); }
inline void run_product(const KernelTable& kernels, const QdotRows& rows) {
  kernels.qdot_rows(rows);
}

inline int64_t bytes_before(const DotRows& rows, int64_t output) {
  return output * rows.width * (rows.weight_is_bf16 ? 2 : 4);
}
inline int64_t bytes_before(const QdotRows& rows, int64_t output) {
  return output / kPanelRows * rows.panel_bytes;
}

// The part of a product that covers outputs [begin, end), written from `out` on. Quantised: begin
// is a multiple of kPanelRows.
template <class Product>
Product slice_weights(Product product, int64_t begin, int64_t end) {
  product.weight = static_cast<const unsigned char*>(product.weight) + bytes_before(product, begin);
  if (product.bias != nullptr) product.bias += begin;
  product.num_outputs = end - begin;
  return product;
}

// The same, written where the whole product has it.
template <class Product>
Product slice_outputs(Product product, int64_t begin, int64_t end) {
  product.out += begin;
  return slice_weights(product, begin, end);
}

inline void skip_rows(DotRows& product, int64_t rows) { product.x += rows * product.x_stride; }
inline void skip_rows(QdotRows& product, int64_t rows) {
  product.x = static_cast<const unsigned char*>(product.x) + rows * product.x_row_bytes;
}

// The part of a product (with plain strides) that covers rows [begin, end).
template <class Product>
Product slice_rows(Product product, int64_t begin, int64_t end) {
  skip_rows(product, begin);
  product.out += begin * product.out_stride;
  product.num_rows = end - begin;
  return product;
}

// A weight that is read for n rows costs about as much as a product over n + 3 rows: memory counts.
inline int64_t product_work(int64_t outputs, int64_t width, int64_t rows) {
  return outputs * width * (rows + 3) / 4;
}

// Splits [0, count) into about `parts` blocks of a multiple of `unit`.
struct Blocks {
  Blocks(int64_t total, int64_t parts, int64_t unit)
      : count(total),
        length(std::max(unit,
                        divide_up(divide_up(total, std::max<int64_t>(1, parts)), unit) * unit)) {}
  int64_t num() const { return divide_up(count, length); }
  int64_t begin(int64_t i) const { return i * length; }
  int64_t end(int64_t i) const { return std::min(count, (i + 1) * length); }
  int64_t count, length;
};

}  // namespace colibri
