#include "coordinator/forward.h"

#include "base/error.h"

namespace colibri {
namespace {

void norm(const ForwardContext& context, const float* x, const std::vector<float>& weight,
          int64_t num_rows, float* out) {
  const int64_t width = context.config->hidden_size;
  context.ops->rms_norm({.x = x,
                         .weight = weight.data(),
                         .out = out,
                         .num_rows = num_rows,
                         .width = width,
                         .x_stride = width,
                         .out_stride = width,
                         .eps = context.config->rms_norm_eps},
                        *context.stream);
}

}  // namespace

Forward::Forward(const ForwardContext& context, const MoeLayerParts& experts)
    : context_(context),
      rope_(context),
      grouped_(context),
      latent_(context),
      mlp_(context),
      moe_(context, experts, mlp_),
      hidden_(float_buffer(context.max_tokens * context.config->hidden_size)),
      normed_(float_buffer(context.max_tokens * context.config->hidden_size)) {}

const float* Forward::run(const Batch& batch, int64_t step_timeout_ms) {
  check(batch.num_tokens() <= context_.max_tokens, "step of ", batch.num_tokens(),
        " tokens, want at most ", context_.max_tokens);
  context_.ops->embed({.table = context_.weights->embedding.view,
                       .ids = batch.ids.data(),
                       .out = hidden_.as<float>(),
                       .num_tokens = batch.num_tokens()},
                      *context_.stream);
  rope_.compute(batch);
  for (int l = 0; l < context_.config->num_layers; ++l) layer(l, batch, step_timeout_ms);
  return logits(batch);
}

void Forward::layer(int l, const Batch& batch, int64_t step_timeout_ms) {
  const LayerWeights& w = context_.weights->layers[static_cast<size_t>(l)];
  const int64_t tokens = batch.num_tokens();
  auto* hidden = hidden_.as<float>();
  auto* normed = normed_.as<float>();

  norm(context_, hidden, w.attention_norm, tokens, normed);
  if (context_.config->attention.kind == AttentionKind::kLatent) {
    latent_.run(l, batch, normed, rope_, hidden);
  } else {
    grouped_.run(l, batch, normed, rope_, hidden);
  }

  norm(context_, hidden, w.mlp_norm, tokens, normed);
  if (context_.config->layer_is_moe[static_cast<size_t>(l)]) {
    moe_.run(l, batch, normed, Deadline::after_ms(step_timeout_ms), hidden);
  } else {
    // normed is read before it is written: the last product of the MLP reads its own scratch.
    mlp_.run(w.dense, normed, tokens, normed);
    context_.ops->add(
        {.x = hidden, .other = normed, .count = tokens * context_.config->hidden_size},
        *context_.stream);
  }
}

const float* Forward::logits(const Batch& batch) {
  const auto num_rows = static_cast<int64_t>(batch.logit_rows.size());
  if (num_rows == 0) return nullptr;
  const int64_t hidden = context_.config->hidden_size, vocab = context_.config->vocab_size;
  last_.reserve_discarding(static_cast<size_t>(num_rows * hidden) * sizeof(float));
  logits_.reserve_discarding(static_cast<size_t>(num_rows * vocab) * sizeof(float));
  context_.ops->gather_rows({.x = hidden_.as<float>(),
                             .row = batch.logit_rows.data(),
                             .out = last_.as<float>(),
                             .num_rows = num_rows,
                             .width = hidden},
                            *context_.stream);
  norm(context_, last_.as<float>(), context_.weights->final_norm, num_rows, last_.as<float>());
  context_.ops->matmul({.x = last_.as<float>(),
                        .weight = context_.weights->head(),
                        .out = logits_.as<float>(),
                        .num_tokens = num_rows,
                        .x_stride = hidden,
                        .out_stride = vocab},
                       *context_.stream);
  context_.stream->synchronize();
  return logits_.as<float>();
}

}  // namespace colibri
