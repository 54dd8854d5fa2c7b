#include "coordinator/latent_attention.h"

namespace colibri {

LatentAttention::LatentAttention(const ForwardContext& context) : context_(context) {
  const AttentionConfig& a = context.config->attention;
  if (a.kind != AttentionKind::kLatent) return;
  heads_ = a.num_heads;
  latent_dim_ = a.kv_lora_rank;
  key_dim_ = a.kv_lora_rank + a.qk_rope_head_dim;
  const int64_t tokens = context.max_tokens;
  q_a_ = float_buffer(context, tokens * a.q_lora_rank);
  q_nope_ = float_buffer(context, tokens * heads_ * a.qk_nope_head_dim);
  q_ = float_buffer(context, tokens * heads_ * key_dim_);
  row_ = float_buffer(context, tokens * key_dim_);
  out_ = float_buffer(context, tokens * heads_ * latent_dim_);
  values_ = float_buffer(context, tokens * heads_ * a.v_head_dim);
  projected_ = float_buffer(context, tokens * context.config->hidden_size);
  const Attention largest{
      .layout = context.cache->layout(), .num_tokens = tokens, .num_heads = heads_};
  scratch_ =
      Buffer(*context.device,
             static_cast<size_t>(context.ops->attention_scratch_bytes(largest, *context.stream)));
}

void LatentAttention::run(int layer, const Batch& batch, const float* normed,
                          const RopeTables& rope, float* hidden) {
  const LatentWeights& w = context_.weights->layers[static_cast<size_t>(layer)].latent;
  make_queries(w, normed, rope, batch.num_tokens());
  make_latent_row(w, normed, rope, batch.num_tokens());
  attend(layer, batch);
  project_out(w, batch.num_tokens(), hidden);
}

void LatentAttention::norm(Buffer& x, const WeightVector& weight, int64_t num_tokens,
                           int64_t stride) {
  context_.ops->rms_norm({.x = x.as<float>(),
                          .weight = weight.data(),
                          .out = x.as<float>(),
                          .num_rows = num_tokens,
                          .width = static_cast<int64_t>(weight.size()),
                          .x_stride = stride,
                          .out_stride = stride,
                          .eps = context_.config->attention.latent_norm_eps},
                         *context_.stream);
}

void LatentAttention::make_queries(const LatentWeights& w, const float* normed,
                                   const RopeTables& rope, int64_t num_tokens) {
  const AttentionConfig& a = context_.config->attention;
  Ops& ops = *context_.ops;
  const float* source = normed;
  int64_t source_width = context_.config->hidden_size;
  Linear& linear = *context_.linear;
  linear.read(source, num_tokens, source_width, source_width);
  if (a.q_lora_rank > 0) {
    linear.multiply(w.q_a.view, w.q_a_bias, q_a_.as<float>());
    norm(q_a_, w.q_a_norm, num_tokens, a.q_lora_rank);
    source = q_a_.as<float>();
    source_width = a.q_lora_rank;
    linear.read(source, num_tokens, source_width, source_width);
  }
  const int64_t nope_width = heads_ * a.qk_nope_head_dim, q_width = heads_ * key_dim_;
  linear.multiply(w.q_nope.view, q_nope_.as<float>());
  // Writes the rotary parts where they belong.
  linear.multiply_heads(w.q_rope.view, heads_, {q_.as<float>() + latent_dim_, q_width, key_dim_});
  ops.batched_matmul({.x = q_nope_.as<float>(),
                      .weight = w.k_up.view,
                      .out = q_.as<float>(),
                      .num_tokens = num_tokens,
                      .num_heads = heads_,
                      .x_stride = nope_width,
                      .x_head_stride = a.qk_nope_head_dim,
                      .out_stride = q_width,
                      .out_head_stride = key_dim_},
                     *context_.stream);
  rope.rotate(q_.as<float>() + latent_dim_, num_tokens, heads_, q_width, key_dim_);
}

void LatentAttention::make_latent_row(const LatentWeights& w, const float* normed,
                                      const RopeTables& rope, int64_t num_tokens) {
  const int64_t width = context_.config->hidden_size;
  context_.linear->read(normed, num_tokens, width, width);
  context_.linear->multiply(w.kv_a.view, w.kv_a_bias, row_.as<float>());
  norm(row_, w.kv_a_norm, num_tokens, key_dim_);
  rope.rotate(row_.as<float>() + latent_dim_, num_tokens, 1, key_dim_, key_dim_);
}

void LatentAttention::attend(int layer, const Batch& batch) {
  const KvLayout& layout = context_.cache->layout();
  context_.ops->kv_write({.layout = layout,
                          .pool = context_.cache->pool(layer),
                          .rows = context_.inputs->rows(),
                          .keys = row_.as<float>(),
                          .num_tokens = batch.num_tokens(),
                          .key_stride = key_dim_},
                         *context_.stream);
  context_.ops->attention({.layout = layout,
                           .pool = context_.cache->pool(layer),
                           .rows = context_.inputs->rows(),
                           .q = q_.as<float>(),
                           .out = out_.as<float>(),
                           .scratch = scratch_.data(),
                           .num_tokens = batch.num_tokens(),
                           .num_heads = heads_,
                           .q_stride = heads_ * key_dim_,
                           .out_stride = heads_ * latent_dim_,
                           .softmax_scale = context_.config->attention.softmax_scale,
                           .max_position = context_.inputs->max_position()},
                          *context_.stream);
}

void LatentAttention::project_out(const LatentWeights& w, int64_t num_tokens, float* hidden) {
  const int64_t value_dim = context_.config->attention.v_head_dim;
  const int64_t width = context_.config->hidden_size;
  context_.ops->batched_matmul({.x = out_.as<float>(),
                                .weight = w.v_up.view,
                                .out = values_.as<float>(),
                                .num_tokens = num_tokens,
                                .num_heads = heads_,
                                .x_stride = heads_ * latent_dim_,
                                .x_head_stride = latent_dim_,
                                .out_stride = heads_ * value_dim,
                                .out_head_stride = value_dim},
                               *context_.stream);
  context_.linear->read(values_.as<float>(), num_tokens, heads_ * value_dim, heads_ * value_dim);
  context_.linear->multiply(w.o.view, w.o_bias, projected_.as<float>());
  context_.ops->add({.x = hidden, .other = projected_.as<float>(), .count = num_tokens * width},
                    *context_.stream);
}

}  // namespace colibri
