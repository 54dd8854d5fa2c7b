#include "coordinator/linear.h"

#include "base/error.h"

namespace colibri {

Linear::Linear(const Backend& backend, const Limits& limits) : backend_(backend) {
  const int64_t groups = (limits.max_width + kGroup - 1) / kGroup;
  const int64_t row_bytes = activation_row_bytes(groups * kGroup);
  quantised_ = Buffer(*backend.device, static_cast<size_t>(limits.max_tokens * row_bytes));
  if (backend.activations != DType::kBF16) return;
  const int64_t count = limits.max_tokens * limits.max_width;
  rounded_ = Buffer(*backend.device, static_cast<size_t>(count) * sizeof(uint16_t));
}

void Linear::read(const float* x, int64_t num_tokens, int64_t width, int64_t stride) {
  x_ = x;
  num_tokens_ = num_tokens;
  width_ = width;
  stride_ = stride;
  is_quantised_ = is_rounded_ = false;
}

const void* Linear::quantised() {
  if (is_quantised_) return quantised_.data();
  const auto bytes = static_cast<size_t>(num_tokens_ * activation_row_bytes(width_));
  check(bytes <= quantised_.size_bytes(), "rows of ", num_tokens_, " x ", width_,
        " are more than was planned");
  backend_.ops->quantise_rows({.x = x_,
                               .out = quantised_.data(),
                               .num_rows = num_tokens_,
                               .width = width_,
                               .x_stride = stride_},
                              *backend_.stream);
  is_quantised_ = true;
  return quantised_.data();
}

const uint16_t* Linear::rounded() {
  if (is_rounded_) return rounded_.as<uint16_t>();
  const auto bytes = static_cast<size_t>(num_tokens_ * width_) * sizeof(uint16_t);
  check(bytes <= rounded_.size_bytes(), "rows of ", num_tokens_, " x ", width_,
        " are more than was planned");
  backend_.ops->round_rows({.x = x_,
                            .out = rounded_.as<uint16_t>(),
                            .num_rows = num_tokens_,
                            .width = width_,
                            .x_stride = stride_},
                           *backend_.stream);
  is_rounded_ = true;
  return rounded_.as<uint16_t>();
}

Linear::Rows Linear::rows_for(DType weights) {
  switch (row_dtype_for(weights, backend_.activations)) {
    case DType::kI8:
      return {.quantised = quantised()};
    case DType::kBF16:
      return {.bf16 = rounded()};
    case DType::kF32:
    case DType::kF16:
    case DType::kI32:
    case DType::kF8E4M3:
    case DType::kQ8:
    case DType::kQ4:
      return {.x = x_};
  }
  return {};
}

void Linear::multiply(const MatrixView& weight, const WeightVector& bias, float* out) {
  check(weight.cols == width_, "matrix of width ", weight.cols, " reads rows of ", width_);
  const Rows rows = rows_for(weight.dtype);
  backend_.ops->matmul({.x = rows.x,
                        .x_quantised = rows.quantised,
                        .x_bf16 = rows.bf16,
                        .weight = weight,
                        .bias = bias.data(),
                        .out = out,
                        .num_tokens = num_tokens_,
                        .x_stride = stride_,
                        .out_stride = weight.rows},
                       *backend_.stream);
}

void Linear::multiply_heads(const MatrixView& weight, int64_t num_heads, const HeadsOut& out) {
  check(weight.cols == width_, "matrix of width ", weight.cols, " reads rows of ", width_);
  const bool packed = is_quantised(weight.dtype);
  backend_.ops->batched_matmul({.x = packed ? nullptr : x_,
                                .x_quantised = packed ? quantised() : nullptr,
                                .weight = weight,
                                .out = out.data,
                                .num_tokens = num_tokens_,
                                .num_heads = num_heads,
                                .x_stride = stride_,
                                .x_head_stride = 0,
                                .out_stride = out.stride,
                                .out_head_stride = out.head_stride},
                               *backend_.stream);
}

}  // namespace colibri
