#include "coordinator/linear.h"

#include "base/error.h"

namespace colibri {

void Linear::read(const float* x, int64_t num_tokens, int64_t width, int64_t stride) {
  x_ = x;
  num_tokens_ = num_tokens;
  width_ = width;
  stride_ = stride;
  is_quantised_ = false;
}

const void* Linear::quantised() {
  if (is_quantised_) return scratch_.data();
  scratch_.reserve_discarding(static_cast<size_t>(num_tokens_ * activation_row_bytes(width_)));
  ops_.quantise_rows({.x = x_,
                      .out = scratch_.data(),
                      .num_rows = num_tokens_,
                      .width = width_,
                      .x_stride = stride_},
                     stream_);
  is_quantised_ = true;
  return scratch_.data();
}

void Linear::multiply(const MatrixView& weight, const WeightVector& bias, float* out) {
  check(weight.cols == width_, "matrix of width ", weight.cols, " reads rows of ", width_);
  const bool packed = is_quantised(weight.dtype);
  ops_.matmul({.x = packed ? nullptr : x_,
               .x_quantised = packed ? quantised() : nullptr,
               .weight = weight,
               .bias = bias.data(),
               .out = out,
               .num_tokens = num_tokens_,
               .x_stride = stride_,
               .out_stride = weight.rows},
              stream_);
}

void Linear::multiply_heads(const MatrixView& weight, int64_t num_heads, const HeadsOut& out) {
  check(weight.cols == width_, "matrix of width ", weight.cols, " reads rows of ", width_);
  const bool packed = is_quantised(weight.dtype);
  ops_.batched_matmul({.x = packed ? nullptr : x_,
                       .x_quantised = packed ? quantised() : nullptr,
                       .weight = weight,
                       .out = out.data,
                       .num_tokens = num_tokens_,
                       .num_heads = num_heads,
                       .x_stride = stride_,
                       .x_head_stride = 0,
                       .out_stride = out.stride,
                       .out_head_stride = out.head_stride},
                      stream_);
}

}  // namespace colibri
