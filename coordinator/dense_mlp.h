// down(silu(gate x) * up x): dense layers and shared experts.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "coordinator/forward_context.h"

namespace colibri {

class DenseMlp {
 public:
  // Room for the wider of dense layers and shared expert.
  explicit DenseMlp(const ForwardContext& context)
      : context_(context),
        max_width_(std::max(context.config->dense_width, context.config->shared_width)),
        gate_(float_buffer(context, context.max_tokens * max_width_)),
        up_(float_buffer(context, context.max_tokens * max_width_)) {}

  // x [T, H] -> out [T, H]; out may be x, which is last read before out is written.
  void run(const MlpWeights& w, const float* x, int64_t num_tokens, float* out) {
    const int64_t hidden = context_.config->hidden_size, width = w.gate.view.rows;
    check(width <= max_width_ && w.down.view.rows == hidden, "MLP of width ", width,
          ", want at most ", max_width_);
    context_.linear->read(x, num_tokens, hidden, hidden);
    context_.linear->multiply(w.gate.view, gate_.as<float>());
    context_.linear->multiply(w.up.view, up_.as<float>());
    context_.ops->silu_mul({.gate = gate_.as<float>(),
                            .up = up_.as<float>(),
                            .out = gate_.as<float>(),
                            .count = num_tokens * width},
                           *context_.stream);
    context_.linear->read(gate_.as<float>(), num_tokens, width, width);
    context_.linear->multiply(w.down.view, out);
  }

 private:
  ForwardContext context_;
  int64_t max_width_;
  Buffer gate_, up_;  // [T, width]
};

}  // namespace colibri
