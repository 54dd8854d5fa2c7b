// What every part of the forward pass is given: the model, its weights, the operations and where
// they run.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "coordinator/batch.h"
#include "coordinator/kv_cache.h"
#include "coordinator/linear.h"
#include "coordinator/stage_times.h"
#include "coordinator/step_inputs.h"
#include "coordinator/weights.h"
#include "kernels/backend.h"
#include "model/config.h"

namespace colibri {

struct ForwardContext {
  const ModelConfig* config = nullptr;
  const CoordinatorWeights* weights = nullptr;
  KvCache* cache = nullptr;
  Device* device = nullptr;
  Ops* ops = nullptr;
  Stream* stream = nullptr;
  DType activations = DType::kF32;  // as Backend's
  int64_t max_tokens = 0;           // largest T of a step
  int64_t max_logit_rows = 0;       // of a step; 0: memory for more is taken as it is needed
  // Page table entries of a step, over all its sequences; shared pages count for each. 0: as many
  // as the cache has pages.
  int64_t max_table_entries = 0;
  Linear* linear = nullptr;      // Forward's own
  StepInputs* inputs = nullptr;  // Forward's own
  StageTimes* stages = nullptr;  // Forward's own
};

// Memory for `count` floats where the operations read and write.
inline Buffer float_buffer(const ForwardContext& context, int64_t count) {
  return Buffer(*context.device, static_cast<size_t>(count) * sizeof(float));
}

// cos and sin of this step's positions, shared by all layers.
class RopeTables {
 public:
  explicit RopeTables(const ForwardContext& context)
      : context_(context),
        half_dim_(context.config->attention.rope.rotary_dim / 2),
        inv_freq_(*context.device),
        cos_(float_buffer(context, context.max_tokens * half_dim_)),
        sin_(float_buffer(context, context.max_tokens * half_dim_)),
        inv_freq_data_(inv_freq_.upload(std::span(context.config->attention.rope.inv_freq),
                                        *context.stream)) {}

  void compute(const Batch& batch) {
    const RopeConfig& rope = context_.config->attention.rope;
    context_.ops->rope_angles({.positions = context_.inputs->positions(),
                               .inv_freq = inv_freq_data_,
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
  UploadedArray<float> inv_freq_;
  Buffer cos_, sin_;  // [T, half_dim]
  const float* inv_freq_data_;
};

}  // namespace colibri
