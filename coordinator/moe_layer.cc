#include "coordinator/moe_layer.h"

#include "transport/row_batch.h"

namespace colibri {
namespace {

RouterKnobs knobs_of(const ModelConfig& config) {
  const RouterConfig& router = config.router;
  RouterKnobs knobs;
  knobs.num_experts = config.num_experts;
  knobs.top_k = config.top_k;
  knobs.score =
      router.score == RouterScore::kSoftmax ? ScoreFunction::kSoftmax : ScoreFunction::kSigmoid;
  knobs.has_selection_bias = router.selection_bias;
  knobs.num_groups = router.num_groups;
  knobs.top_groups = router.top_groups;
  knobs.renormalise = router.renormalise;
  knobs.renormalise_eps = router.renormalise_eps;
  knobs.scale = router.scale;
  return knobs;
}

}  // namespace

MoeLayer::MoeLayer(const ForwardContext& context, const MoeLayerParts& parts, DenseMlp& mlp)
    : context_(context),
      parts_(parts),
      mlp_(mlp),
      top_k_(context.config->top_k),
      expert_rows_(
          *context.device,
          parts.row_dtype == DType::kF32
              ? 0
              : static_cast<size_t>(context.max_tokens *
                                    token_row_bytes(parts.row_dtype, context.config->hidden_size))),
      logits_(float_buffer(context, context.max_tokens * context.config->num_experts)),
      expert_ids_(*context.device,
                  static_cast<size_t>(context.config->num_layers * context.max_tokens * top_k_) *
                      sizeof(int32_t)),
      weights_(float_buffer(context, context.config->num_layers * context.max_tokens * top_k_)),
      shared_(float_buffer(context, context.config->shared_width > 0
                                        ? context.max_tokens * context.config->hidden_size
                                        : 0)),
      shared_gate_(float_buffer(context, context.config->shared_gate ? context.max_tokens : 0)) {}

void MoeLayer::run(int layer, const Batch& batch, const float* normed, const Deadline& deadline,
                   float* hidden) {
  const LayerWeights& w = context_.weights->layers[static_cast<size_t>(layer)];
  const int64_t tokens = batch.num_tokens();
  StageTimes& stages = *context_.stages;
  {
    const StageTimer timer(stages, Stage::kRouter, *context_.device);
    route(layer, normed, tokens);
  }
  TraceSpan away(stages.trace(), "rows away", TraceTrack::kExchange);
  {
    const StageTimer timer(stages, Stage::kDispatch, *context_.device);
    const Choice chosen = choice(layer, tokens);
    parts_.path->begin({.layer = layer,
                        .batch = &batch,
                        .rows = expert_rows(normed, tokens),
                        .expert_ids = chosen.ids,
                        .weights = chosen.weights,
                        .num_real_tokens = context_.inputs->num_real_tokens()},
                       deadline, *context_.stream);
  }
  {
    const StageTimer timer(stages, Stage::kShared, *context_.device);
    run_shared(w, normed, tokens);
  }
  {
    const StageTimer timer(stages, Stage::kExperts, *context_.device);
    parts_.path->run_local(*context_.stream);
  }
  LocatedResults results;
  {
    const StageTimer timer(stages, Stage::kWait, *context_.device);
    results = parts_.path->finish(deadline, *context_.stream);
  }
  away.end();
  const StageTimer timer(stages, Stage::kCombine, *context_.device);
  combine(layer, results, tokens, hidden);
}

// Quantised or rounded once a layer: what travels is what every rank multiplies.
TokenRows MoeLayer::expert_rows(const float* normed, int64_t num_tokens) {
  const int64_t hidden = context_.config->hidden_size;
  if (parts_.row_dtype == DType::kF32) return {normed, DType::kF32, hidden};
  if (parts_.row_dtype == DType::kBF16) {
    context_.ops->round_rows({.x = normed,
                              .out = expert_rows_.as<uint16_t>(),
                              .num_rows = num_tokens,
                              .width = hidden,
                              .x_stride = hidden},
                             *context_.stream);
  } else {
    context_.ops->quantise_rows({.x = normed,
                                 .out = expert_rows_.data(),
                                 .num_rows = num_tokens,
                                 .width = hidden,
                                 .x_stride = hidden},
                                *context_.stream);
  }
  return {expert_rows_.data(), parts_.row_dtype, hidden};
}

MoeLayer::Choice MoeLayer::choice(int layer, int64_t num_tokens) {
  const int64_t at = layer * num_tokens * top_k_;
  return {expert_ids_.as<int32_t>() + at, weights_.as<float>() + at};
}

void MoeLayer::route(int layer, const float* normed, int64_t num_tokens) {
  const LayerWeights& w = context_.weights->layers[static_cast<size_t>(layer)];
  const Choice chosen = choice(layer, num_tokens);
  context_.ops->matmul({.x = normed,
                        .weight = w.router.view,
                        .out = logits_.as<float>(),
                        .num_tokens = num_tokens,
                        .x_stride = context_.config->hidden_size,
                        .out_stride = context_.config->num_experts},
                       *context_.stream);
  context_.ops->route({.knobs = knobs_of(*context_.config),
                       .logits = logits_.as<float>(),
                       .selection_bias = w.router_bias.data(),
                       .expert_ids = chosen.ids,
                       .weights = chosen.weights,
                       .num_tokens = num_tokens},
                      *context_.stream);
}

void MoeLayer::run_shared(const LayerWeights& w, const float* normed, int64_t num_tokens) {
  if (w.shared.gate.view.empty()) return;
  mlp_.run(w.shared, normed, num_tokens, shared_.as<float>());
  if (w.shared_gate.empty()) return;
  const int64_t hidden = context_.config->hidden_size;
  context_.ops->matmul({.x = normed,
                        .weight = {w.shared_gate.data(), DType::kF32, 1, hidden},
                        .out = shared_gate_.as<float>(),
                        .num_tokens = num_tokens,
                        .x_stride = hidden,
                        .out_stride = 1},
                       *context_.stream);
  context_.ops->sigmoid({.x = shared_gate_.as<float>(), .count = num_tokens}, *context_.stream);
}

void MoeLayer::combine(int layer, const LocatedResults& results, int64_t num_tokens,
                       float* hidden) {
  const LayerWeights& w = context_.weights->layers[static_cast<size_t>(layer)];
  const bool is_f32 = results.dtype == DType::kF32;
  context_.ops->combine(
      {.residual = hidden,
       .results = is_f32 ? static_cast<const float*>(results.data) : nullptr,
       .results_bf16 = is_f32 ? nullptr : static_cast<const uint16_t*>(results.data),
       .result_offset = results.offset,
       .weights = choice(layer, num_tokens).weights,
       .shared = w.shared.gate.view.empty() ? nullptr : shared_.as<float>(),
       .shared_gate = w.shared_gate.empty() ? nullptr : shared_gate_.as<float>(),
       .out = hidden,
       .num_tokens = num_tokens,
       .top_k = top_k_,
       .hidden_size = context_.config->hidden_size},
      *context_.stream);
}

}  // namespace colibri
