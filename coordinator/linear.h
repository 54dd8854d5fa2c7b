// Products with the coordinator's own matrices, whatever form they have: f32 rows go as they are,
// rows for q8 and q4 matrices are quantised first, rows for bf16 matrices rounded where the backend
// keeps its activations in bf16; each once for all matrices that read them.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "coordinator/weights.h"
#include "kernels/backend.h"

namespace colibri {

class Linear {
 public:
  // Takes scratch for steps of max_tokens rows of at most max_width.
  struct Limits {
    int64_t max_tokens = 0, max_width = 0;
  };
  Linear(const Backend& backend, const Limits& limits);

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
  // One of the three is not null: the rows as a product with such weights reads them.
  struct Rows {
    const float* x = nullptr;
    const void* quantised = nullptr;
    const uint16_t* bf16 = nullptr;
  };
  Rows rows_for(DType weights);
  const void* quantised();
  const uint16_t* rounded();

  Backend backend_;
  const float* x_ = nullptr;
  int64_t num_tokens_ = 0, width_ = 0, stride_ = 0;
  bool is_quantised_ = false;  // quantised_ holds x_
  bool is_rounded_ = false;    // rounded_ holds x_
  Buffer quantised_, rounded_;
};

}  // namespace colibri
