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
          .prompt_positions = tokens * (tokens + 1) / 2,
          .prompt_kv_positions = tokens};
}

StepWork step_work(const ModelShape& shape, const StepSize& size) {
  const double layers = std::max(1, shape.num_layers);
  const auto of = [](StepWork& work, OpKind kind) -> OpWork& {
    return work[static_cast<size_t>(kind)];
  };
  StepWork work{};
  of(work, OpKind::kDense) = {static_cast<double>(shape.layer_bytes) / layers,
                              2 * size.num_tokens * static_cast<double>(shape.dense_macs) / layers};
  const auto kv_bytes = static_cast<double>(shape.kv_bytes_per_token) / layers;
  const auto operations = 2 * static_cast<double>(shape.attention_macs) / layers;
  of(work, OpKind::kAttention) = {kv_bytes * size.decode_positions,
                                  operations * size.decode_positions};
  of(work, OpKind::kPromptAttention) = {kv_bytes * size.prompt_kv_positions,
                                        operations * size.prompt_positions};
  of(work, OpKind::kHead) = {static_cast<double>(shape.head_bytes),
                             2 * static_cast<double>(shape.head_macs) * size.num_logit_rows};
  const double numbers = (10.0 + shape.top_k) * static_cast<double>(shape.hidden_size) +
                         static_cast<double>(shape.num_experts);
  of(work, OpKind::kElementwise) = {4 * numbers * size.num_tokens, 0};
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
  return {static_cast<double>(shape.shared_bytes),
          2 * size.num_tokens * static_cast<double>(shape.shared_macs)};
}

OwnTimes own_times(const ModelShape& shape, const StepSize& size, const DeviceSpec& device) {
  const StepWork work = step_work(shape, size);
  const auto us = [&](OpKind kind, const OpWork& op) {
    if (op.bytes <= 0 && op.operations <= 0) return 0.0;
    return device.cost(kind, dense_is_narrow(shape)).us(op.bytes, op.operations);
  };
  const auto of = [&](OpKind kind) { return us(kind, work[static_cast<size_t>(kind)]); };
  const OpWork shared = shared_work(shape, size);
  OpWork dense = work[static_cast<size_t>(OpKind::kDense)];
  const double share =
      shape.num_moe_layers() / std::max(1.0, static_cast<double>(shape.num_layers));
  dense.bytes -= share * shared.bytes;
  dense.operations -= share * shared.operations;
  return {.dense_us = us(OpKind::kDense, dense),
          .attention_us = of(OpKind::kAttention) + of(OpKind::kPromptAttention),
          .elementwise_us = of(OpKind::kElementwise),
          .head_us = size.num_logit_rows > 0 ? of(OpKind::kHead) : 0,
          .shared_us = us(OpKind::kDense, shared)};
}

double expert_us(const ModelShape& shape, const DeviceSpec& device, double touched, double pairs) {
  if (pairs <= 0) return 0;
  return device.cost(OpKind::kExperts, experts_are_narrow(shape))
      .us(touched * static_cast<double>(shape.expert_bytes),
          2 * pairs * static_cast<double>(shape.expert_macs()));
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
