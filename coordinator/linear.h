// Products with the coordinator's own matrices, whatever form they have: f32 rows go as they are,
// rows for q8 and q4 matrices are quantised first, once for all matrices that read them.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "coordinator/weights.h"
#include "kernels/backend.h"

namespace colibri {

class Linear {
 public:
  // Scratch for quantised rows is taken when first needed and kept.
  explicit Linear(const Backend& backend)
      : ops_(*backend.ops), stream_(*backend.stream), scratch_(*backend.device, 0) {}

  // The rows that the following products read: x [T, width], `stride` floats apart. They must not
  // change until the last of these products.
  void read(const float* x, int64_t num_tokens, int64_t width, int64_t stride);

  // out[t, :] = weight x[t, :] (+ bias, which may be empty); out [T, weight.rows], row by row.
  void multiply(const MatrixView& weight, const WeightVector& bias, float* out);
  void multiply(const MatrixView& weight, float* out) { multiply(weight, {}, out); }

  // Where the head h of a product with `num_heads` blocks of rows goes.
  struct HeadsOut {
    float* data = nullptr;
    int64_t stride = 0, head_stride = 0;
  };
  // The same with the rows of `weight` in num_heads equal blocks, all of which read the row x[t].
  void multiply_heads(const MatrixView& weight, int64_t num_heads, const HeadsOut& out);

 private:
  const void* quantised();

  Ops& ops_;
  Stream& stream_;
  const float* x_ = nullptr;
  int64_t num_tokens_ = 0, width_ = 0, stride_ = 0;
  bool is_quantised_ = false;  // scratch_ holds x_
  Buffer scratch_;
};

}  // namespace colibri
