// What every part of the forward pass is given: the model, its weights, the operations and where
// they run.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "coordinator/batch.h"
#include "coordinator/kv_cache.h"
#include "coordinator/linear.h"
#include "coordinator/route_observer.h"
#include "coordinator/route_override.h"
#include "coordinator/stage_times.h"
#include "coordinator/weights.h"
#include "kernels/ops.h"
#include "model/config.h"

namespace colibri {

struct ForwardContext {
  const ModelConfig* config = nullptr;
  const CoordinatorWeights* weights = nullptr;
  KvCache* cache = nullptr;
  Ops* ops = nullptr;
  Stream* stream = nullptr;
  int64_t max_tokens = 0;             // largest T of a step
  RouteOverride* routing = nullptr;   // may be null: the model's own choice
  RouteObserver* observer = nullptr;  // may be null
  Linear* linear = nullptr;           // Forward's own
  StageTimes* stages = nullptr;       // Forward's own
};

// Memory for `count` floats.
inline Buffer float_buffer(int64_t count) {
  return Buffer(static_cast<size_t>(count) * sizeof(float));
}

// Pointer to a vector's data, null when empty: how operations say "no bias".
inline const float* data_or_null(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

// cos and sin of this step's positions, shared by all layers.
class RopeTables {
 public:
  explicit RopeTables(const ForwardContext& context)
      : context_(context),
        half_dim_(context.config->attention.rope.rotary_dim / 2),
        cos_(float_buffer(context.max_tokens * half_dim_)),
        sin_(float_buffer(context.max_tokens * half_dim_)) {}

  void compute(const Batch& batch) {
    const RopeConfig& rope = context_.config->attention.rope;
    context_.ops->rope_angles({.positions = batch.positions.data(),
                               .inv_freq = rope.inv_freq.data(),
                               .cos = cos_.as<float>(),
                               .sin = sin_.as<float>(),
                               .num_tokens = batch.num_tokens(),
                               .half_dim = half_dim_,
                               .scale = rope.attention_factor},
                              *context_.stream);
  }

  // Turns `num_heads` heads a token, the first at `x`.
  void rotate(float* x, int64_t num_tokens, int64_t num_heads, int64_t stride,
              int64_t head_stride) const {
    context_.ops->rope({.x = x,
                        .cos = cos_.as<float>(),
                        .sin = sin_.as<float>(),
                        .num_tokens = num_tokens,
                        .num_heads = num_heads,
                        .half_dim = half_dim_,
                        .stride = stride,
                        .head_stride = head_stride,
                        .interleaved = context_.config->attention.rope.interleaved},
                       *context_.stream);
  }

 private:
  ForwardContext context_;
  int64_t half_dim_;
  Buffer cos_, sin_;  // [T, half_dim]
};

}  // namespace colibri
