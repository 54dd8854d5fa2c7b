#include "coordinator/attention.h"

namespace colibri {

GroupedQueryAttention::GroupedQueryAttention(const ForwardContext& context)
    : context_(context),
      q_width_(context.config->attention.num_heads * context.config->attention.head_dim),
      kv_width_(context.config->attention.num_kv_heads * context.config->attention.head_dim) {
  if (context.config->attention.kind != AttentionKind::kGroupedQuery) return;
  const int64_t tokens = context.max_tokens;
  q_ = float_buffer(context, tokens * q_width_);
  k_ = float_buffer(context, tokens * kv_width_);
  v_ = float_buffer(context, tokens * kv_width_);
  out_ = float_buffer(context, tokens * q_width_);
  projected_ = float_buffer(context, tokens * context.config->hidden_size);
  const Attention largest{.layout = context.cache->layout(),
                          .num_tokens = tokens,
                          .num_heads = context.config->attention.num_heads};
  scratch_ =
      Buffer(*context.device,
             static_cast<size_t>(context.ops->attention_scratch_bytes(largest, *context.stream)));
}

void GroupedQueryAttention::run(int layer, const Batch& batch, const float* normed,
                                const RopeTables& rope, float* hidden) {
  const AttentionConfig& a = context_.config->attention;
  const GroupedQueryWeights& w = context_.weights->layers[static_cast<size_t>(layer)].grouped;
  const int64_t tokens = batch.num_tokens();
  project(w, normed, tokens);
  norm_heads(w, tokens);
  rope.rotate(q_.as<float>(), tokens, a.num_heads, q_width_, a.head_dim);
  rope.rotate(k_.as<float>(), tokens, a.num_kv_heads, kv_width_, a.head_dim);
  attend(layer, batch);
  const int64_t width = context_.config->hidden_size;
  context_.linear->read(out_.as<float>(), tokens, q_width_, q_width_);
  context_.linear->multiply(w.o.view, w.o_bias, projected_.as<float>());
  context_.ops->add({.x = hidden, .other = projected_.as<float>(), .count = tokens * width},
                    *context_.stream);
}

void GroupedQueryAttention::project(const GroupedQueryWeights& w, const float* normed,
                                    int64_t num_tokens) {
  const int64_t width = context_.config->hidden_size;
  context_.linear->read(normed, num_tokens, width, width);
  context_.linear->multiply(w.q.view, w.q_bias, q_.as<float>());
  context_.linear->multiply(w.k.view, w.k_bias, k_.as<float>());
  context_.linear->multiply(w.v.view, w.v_bias, v_.as<float>());
}

// The norm of the full width comes before the clamp and the split into heads, as in OLMoE; per head
// it is Qwen3's.
void GroupedQueryAttention::norm_heads(const GroupedQueryWeights& w, int64_t num_tokens) {
  const AttentionConfig& a = context_.config->attention;
  const auto norm = [&](Buffer& x, const WeightVector& weight, int64_t width) {
    const int64_t group = a.qk_norm == QkNorm::kPerHead ? a.head_dim : width;
    context_.ops->rms_norm({.x = x.as<float>(),
                            .weight = weight.data(),
                            .out = x.as<float>(),
                            .num_rows = num_tokens * width / group,
                            .width = group,
                            .x_stride = group,
                            .out_stride = group,
                            .eps = context_.config->rms_norm_eps},
                           *context_.stream);
  };
  if (a.qk_norm != QkNorm::kNone) {
    norm(q_, w.q_norm, q_width_);
    norm(k_, w.k_norm, kv_width_);
  }
  if (a.clip_qkv == 0) return;
  const auto clip = [&](Buffer& x, int64_t width) {
    context_.ops->clamp(
        {.x = x.as<float>(), .count = num_tokens * width, .low = -a.clip_qkv, .high = a.clip_qkv},
        *context_.stream);
  };
  clip(q_, q_width_);
  clip(k_, kv_width_);
  clip(v_, kv_width_);
}

void GroupedQueryAttention::attend(int layer, const Batch& batch) {
  const KvLayout& layout = context_.cache->layout();
  context_.ops->kv_write({.layout = layout,
                          .pool = context_.cache->pool(layer),
                          .rows = context_.inputs->rows(),
                          .keys = k_.as<float>(),
                          .values = v_.as<float>(),
                          .num_tokens = batch.num_tokens(),
                          .key_stride = kv_width_,
                          .value_stride = kv_width_},
                         *context_.stream);
  context_.ops->attention({.layout = layout,
                           .pool = context_.cache->pool(layer),
                           .rows = context_.inputs->rows(),
                           .q = q_.as<float>(),
                           .out = out_.as<float>(),
                           .scratch = scratch_.data(),
                           .num_tokens = batch.num_tokens(),
                           .num_heads = context_.config->attention.num_heads,
                           .q_stride = q_width_,
                           .out_stride = q_width_,
                           .softmax_scale = context_.config->attention.softmax_scale,
                           .max_position = context_.inputs->max_position()},
                          *context_.stream);
}

}  // namespace colibri
