#include "coordinator/moe_layer.h"

#include "base/error.h"

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
                  static_cast<size_t>(context.max_tokens * top_k_) * sizeof(int32_t)),
      weights_(float_buffer(context, context.max_tokens * top_k_)),
      shared_(float_buffer(context, context.config->shared_width > 0
                                        ? context.max_tokens * context.config->hidden_size
                                        : 0)),
      shared_gate_(float_buffer(context, context.config->shared_gate ? context.max_tokens : 0)),
      device_result_offset_(*context.device),
      stats_(context.config->num_layers, context.config->num_experts, top_k_) {}

void MoeLayer::run(int layer, const Batch& batch, const float* normed, const Deadline& deadline,
                   float* hidden) {
  const LayerWeights& w = context_.weights->layers[static_cast<size_t>(layer)];
  const int64_t tokens = batch.num_tokens();
  StageTimes& stages = *context_.stages;
  {
    const StageTimer timer(stages, Stage::kRouter);
    route(layer, batch, normed);
  }
  {
    const StageTimer timer(stages, Stage::kDispatch);
    dispatch(layer, normed, tokens);
  }
  {
    const StageTimer timer(stages, Stage::kShared);
    run_shared(w, normed, tokens);
  }
  {
    const StageTimer timer(stages, Stage::kExperts);
    parts_.exchange->run_local(*context_.stream);
  }
  ExpertResults results;
  {
    const StageTimer timer(stages, Stage::kWait);
    results = parts_.exchange->finish(deadline, *context_.stream);
  }
  const StageTimer timer(stages, Stage::kCombine);
  combine(results, w, tokens, hidden);
}

MoeLayer::Choice MoeLayer::choice(int64_t num_tokens) {
  const auto count = static_cast<size_t>(num_tokens * top_k_);
  if (is_on_host()) return {{expert_ids_.as<int32_t>(), count}, {weights_.as<float>(), count}};
  host_ids_.resize(count);
  host_weights_.resize(count);
  return {host_ids_, host_weights_};
}

// The step's one wait for the device in this layer: the plan is made on the host.
void MoeLayer::fetch_choice(const Choice& on_host) {
  Stream& stream = *context_.stream;
  if (!is_on_host()) {
    context_.device->copy(on_host.ids.data(), expert_ids_.data(), on_host.ids.size_bytes(), stream);
    context_.device->copy(on_host.weights.data(), weights_.data(), on_host.weights.size_bytes(),
                          stream);
  }
  stream.synchronize();
}

void MoeLayer::dispatch(int layer, const float* normed, int64_t num_tokens) {
  plan_dispatch({.layer = layer,
                 .num_tokens = num_tokens,
                 .top_k = top_k_,
                 .expert_ids = choice(num_tokens).ids},
                *parts_.placement, plan_);
  parts_.exchange->begin({.layer = layer,
                          .tokens = expert_rows(normed, num_tokens),
                          .num_tokens = num_tokens,
                          .row_begin = plan_.row_begin,
                          .row_token = plan_.row_token,
                          .pair_begin = plan_.pair_begin,
                          .slot = plan_.slot},
                         *context_.stream);
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

void MoeLayer::route(int layer, const Batch& batch, const float* normed) {
  const LayerWeights& w = context_.weights->layers[static_cast<size_t>(layer)];
  context_.ops->matmul({.x = normed,
                        .weight = w.router.view,
                        .out = logits_.as<float>(),
                        .num_tokens = batch.num_tokens(),
                        .x_stride = context_.config->hidden_size,
                        .out_stride = context_.config->num_experts},
                       *context_.stream);
  context_.ops->route({.knobs = knobs_of(*context_.config),
                       .logits = logits_.as<float>(),
                       .selection_bias = w.router_bias.data(),
                       .expert_ids = expert_ids_.as<int32_t>(),
                       .weights = weights_.as<float>(),
                       .num_tokens = batch.num_tokens()},
                      *context_.stream);
  const Choice chosen = choice(batch.num_tokens());
  fetch_choice(chosen);
  check_choice(layer, batch, chosen);
  if (context_.routing != nullptr) override_choice(layer, batch, chosen);
  if (context_.observer != nullptr) {
    context_.observer->on_routes(layer, batch, chosen.ids, chosen.weights);
  }
  stats_.add(layer, chosen.ids);
}

void MoeLayer::override_choice(int layer, const Batch& batch, const Choice& chosen) {
  context_.routing->choose(layer, batch, chosen.ids, chosen.weights);
  if (is_on_host()) return;
  context_.device->copy(weights_.data(), chosen.weights.data(), chosen.weights.size_bytes(),
                        *context_.stream);
}

void MoeLayer::check_choice(int layer, const Batch& batch, const Choice& chosen) const {
  for (int64_t t = 0; t < batch.num_tokens(); ++t) {
    if (chosen.ids[static_cast<size_t>(t * top_k_)] >= 0) continue;
    fail(ErrorKind::kInput, "layer ", layer, ": the router's logits for the token at position ",
         batch.positions[static_cast<size_t>(t)],
         " are not finite; the checkpoint's weights are damaged or not meant for this "
         "configuration");
  }
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

void MoeLayer::combine(const ExpertResults& results, const LayerWeights& w, int64_t num_tokens,
                       float* hidden) {
  result_offset_.resize(plan_.pair_of_choice.size());
  for (size_t i = 0; i < result_offset_.size(); ++i) {
    result_offset_[i] = results.offset[static_cast<size_t>(plan_.pair_of_choice[i])];
  }
  context_.ops->combine(
      {.residual = hidden,
       .results = results.data,
       .result_offset = device_result_offset_.upload(result_offset_, *context_.stream),
       .weights = weights_.as<float>(),
       .shared = w.shared.gate.view.empty() ? nullptr : shared_.as<float>(),
       .shared_gate = w.shared_gate.empty() ? nullptr : shared_gate_.as<float>(),
       .out = hidden,
       .num_tokens = num_tokens,
       .top_k = top_k_,
       .hidden_size = context_.config->hidden_size},
      *context_.stream);
}

}  // namespace colibri
