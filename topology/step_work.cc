#include "topology/step_work.h"

#include <algorithm>
#include <cmath>

namespace colibri {
namespace {

constexpr double kNarrowBytes = 1.2;  // q8 has 1.0625 with its scales

double narrow_row(double values) { return 1.125 * values; }

}  // namespace

StepSize decode_size(double batch, double context) {
  return {.num_tokens = batch, .num_logit_rows = batch, .decode_positions = batch * (context + 1)};
}

StepSize prefill_size(double tokens) {
  return {.num_tokens = tokens,
          .num_logit_rows = 1,
          .num_prompt_tokens = tokens,
          .prompt_positions = tokens * (tokens + 1) / 2,
          .prompt_kv_positions = tokens};
}

StepWork step_work(const ModelShape& shape, const StepSize& size) {
  const double layers = std::max(1, shape.num_layers);
  const auto of = [](StepWork& work, OpKind kind) -> OpWork& {
    return work[static_cast<size_t>(kind)];
  };
  StepWork work{};
  const auto hidden = static_cast<double>(shape.hidden_size);
  const double dense_macs = static_cast<double>(shape.dense_macs) / layers;
  of(work, OpKind::kDense) = {
      .bytes = static_cast<double>(shape.layer_bytes) / layers,
      .operations = 2 * size.num_tokens * dense_macs,
      .values = size.num_tokens * (dense_macs / std::max(1.0, hidden) + 2 * hidden)};
  const auto kv_bytes = static_cast<double>(shape.kv_bytes_per_token) / layers;
  const auto operations = 2 * static_cast<double>(shape.attention_macs) / layers;
  of(work, OpKind::kAttention) = {
      .bytes = kv_bytes * size.decode_positions,
      .operations = operations * size.decode_positions,
      .pieces = shape.num_heads * (size.num_tokens - size.num_prompt_tokens),
      .values = shape.num_heads * size.decode_positions};
  of(work, OpKind::kPromptAttention) = {.bytes = kv_bytes * size.prompt_kv_positions,
                                        .operations = operations * size.prompt_positions,
                                        .pieces = shape.num_heads * size.num_prompt_tokens,
                                        .values = shape.num_heads * size.prompt_positions};
  of(work, OpKind::kHead) = {
      .bytes = static_cast<double>(shape.head_bytes),
      .operations = 2 * static_cast<double>(shape.head_macs) * size.num_logit_rows,
      .values = size.num_logit_rows * (static_cast<double>(shape.vocab_size) + hidden)};
  const double numbers = (10.0 + shape.top_k) * hidden + static_cast<double>(shape.num_experts);
  of(work, OpKind::kElementwise) = {.bytes = 4 * numbers * size.num_tokens,
                                    .pieces = size.num_tokens};
  return work;
}

bool experts_are_narrow(const ModelShape& shape) {
  return static_cast<double>(shape.expert_bytes) <=
         kNarrowBytes * static_cast<double>(shape.expert_macs());
}

bool dense_is_narrow(const ModelShape& shape) {
  return static_cast<double>(shape.layer_bytes) <=
         kNarrowBytes * static_cast<double>(shape.dense_macs);
}

OpWork shared_work(const ModelShape& shape, const StepSize& size) {
  const auto hidden = static_cast<double>(shape.hidden_size);
  const auto macs = static_cast<double>(shape.shared_macs);
  return {.bytes = static_cast<double>(shape.shared_bytes),
          .operations = 2 * size.num_tokens * macs,
          .values = size.num_tokens * macs / std::max(1.0, hidden)};
}

OwnTimes own_times(const ModelShape& shape, const StepSize& size, const DeviceSpec& device,
                   double cached_share) {
  const StepWork work = step_work(shape, size);
  const auto us = [&](OpKind kind, const OpWork& op) {
    if (op.bytes <= 0 && op.operations <= 0) return 0.0;
    return device.cost(kind, dense_is_narrow(shape)).us(op, cached_share);
  };
  const auto of = [&](OpKind kind) { return us(kind, work[static_cast<size_t>(kind)]); };
  const OpWork shared = shared_work(shape, size);
  OpWork dense = work[static_cast<size_t>(OpKind::kDense)];
  const double share =
      shape.num_moe_layers() / std::max(1.0, static_cast<double>(shape.num_layers));
  dense.bytes -= share * shared.bytes;
  dense.operations -= share * shared.operations;
  dense.values -= share * shared.values;
  return {.dense_us = us(OpKind::kDense, dense),
          .attention_us = of(OpKind::kAttention) + of(OpKind::kPromptAttention),
          .elementwise_us = of(OpKind::kElementwise),
          .head_us = size.num_logit_rows > 0 ? of(OpKind::kHead) : 0,
          .shared_us = us(OpKind::kDense, shared)};
}

OpWork expert_work(const ModelShape& shape, double touched, double pairs) {
  const double values_a_pair =
      2 * static_cast<double>(shape.hidden_size) + 3 * static_cast<double>(shape.expert_width);
  return {.bytes = touched * static_cast<double>(shape.expert_bytes),
          .operations = 2 * pairs * static_cast<double>(shape.expert_macs()),
          .pieces = touched,
          .values = pairs * values_a_pair};
}

double expert_us(const ModelShape& shape, const DeviceSpec& device, double touched, double pairs,
                 double cached_share) {
  if (pairs <= 0) return 0;
  return device.cost(OpKind::kExperts, experts_are_narrow(shape))
      .us(expert_work(shape, touched, pairs), cached_share);
}

double own_step_bytes(const ModelShape& shape, const StepSize& size) {
  return static_cast<double>(shape.layer_bytes + shape.head_bytes) +
         static_cast<double>(shape.kv_bytes_per_token) *
             (size.decode_positions + size.prompt_kv_positions);
}

double results_room(double num_tokens, double top_k, double most) {
  constexpr double kAlwaysFits = 4, kShares = 32;
  const double all = num_tokens * top_k;
  if (num_tokens <= kAlwaysFits) return all;
  const double seen = std::ceil(most / all * kShares * (1 - 1e-12));
  const double wanted = seen + std::floor((seen + 1) / 2) + 1;
  const double share = std::min(kShares, 2 * std::floor((wanted + 1) / 2));
  return std::ceil(all * share / kShares);
}

double row_bytes(const ModelShape& shape, bool is_gpu) {
  const auto hidden = static_cast<double>(shape.hidden_size);
  if (experts_are_narrow(shape)) return narrow_row(hidden);
  return (is_gpu ? 2 : 4) * hidden;
}

double result_bytes(const ModelShape& shape, bool is_gpu) {
  return (is_gpu ? 2 : 4) * static_cast<double>(shape.hidden_size);
}

}  // namespace colibri
