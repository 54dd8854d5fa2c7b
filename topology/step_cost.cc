#include "topology/step_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace colibri {
namespace {

// q8 with its scales is 1.0625 bytes a weight.
constexpr double kNarrowBytes = 1.25;
constexpr double kInt8RowBytes = 1.125;
// Of the residual stream, f32: two norms read it, two additions read and write it.
constexpr double kElementwiseBytes = 24;

bool is_narrow(int64_t bytes, int64_t weights) {
  return weights > 0 && static_cast<double>(bytes) <= kNarrowBytes * static_cast<double>(weights);
}

}  // namespace

StepSize decode_step(double batch, double context) {
  return {batch, batch * context, batch * context, batch};
}

StepSize prefill_step(double chunk, double before) {
  return {chunk, chunk * before + chunk * (chunk + 1) / 2, before + chunk, 0};
}

StepFormats step_formats(const ModelShape& shape, bool is_gpu) {
  const double width = is_gpu ? 2 : 4;
  const auto hidden = static_cast<double>(shape.hidden_size);
  StepFormats formats;
  formats.has_narrow_experts = is_narrow(shape.expert_bytes, shape.expert_macs());
  formats.has_narrow_dense = is_narrow(shape.layer_bytes, shape.dense_macs);
  formats.row_bytes = hidden * (formats.has_narrow_experts ? kInt8RowBytes : width);
  formats.result_bytes = hidden * width;
  return formats;
}

CoordinatorOps coordinator_ops(const ModelShape& shape, const StepFormats& formats,
                               const StepSize& step, double share) {
  const double tokens = step.num_tokens * share, layers = std::max(1, shape.num_layers);
  const double moe_layers = shape.num_moe_layers();
  const auto hidden = static_cast<double>(shape.hidden_size);
  const double dense_bytes =
      static_cast<double>(shape.layer_bytes) - moe_layers * static_cast<double>(shape.shared_bytes);
  const double dense_macs =
      static_cast<double>(shape.dense_macs) - moe_layers * static_cast<double>(shape.shared_macs);
  const bool narrow = formats.has_narrow_dense;
  const double rows = step.logit_rows * share;
  CoordinatorOps ops;
  ops.dense = {OpKind::kDense, narrow, dense_bytes / layers, 2 * tokens * dense_macs / layers};
  ops.attention = {OpKind::kAttention, false,
                   step.kv_reads * share * static_cast<double>(shape.kv_bytes_per_token) / layers,
                   2 * step.positions * share * static_cast<double>(shape.attention_macs) / layers};
  ops.elementwise = {OpKind::kElementwise, false, kElementwiseBytes * tokens * hidden, 0};
  ops.shared = {OpKind::kDense, narrow, static_cast<double>(shape.shared_bytes),
                2 * tokens * static_cast<double>(shape.shared_macs)};
  ops.combine = {OpKind::kElementwise, false, tokens * shape.top_k * formats.result_bytes, 0};
  if (rows > 0) {
    ops.head = {OpKind::kHead, narrow, static_cast<double>(shape.head_bytes),
                2 * rows * static_cast<double>(shape.head_macs)};
    ops.picking = {OpKind::kElementwise, false, 4 * rows * static_cast<double>(shape.vocab_size),
                   0};
  }
  return ops;
}

OpUse expert_op(const ModelShape& shape, const StepFormats& formats, double touched, double pairs) {
  return {OpKind::kExperts, formats.has_narrow_experts,
          touched * static_cast<double>(shape.expert_bytes),
          2 * pairs * static_cast<double>(shape.expert_macs())};
}

StepRanks step_ranks(const Cluster& cluster, std::vector<int> parts, int num_coordinators) {
  const int num_ranks = static_cast<int>(parts.size());
  const int wanted = num_coordinators == 0 ? num_ranks : num_coordinators;
  if (wanted < 1 || wanted > num_ranks) {
    fail(ErrorKind::kInput, num_coordinators, " coordinators among ", num_ranks,
         " ranks, want 1 to ", num_ranks, ", or all");
  }
  std::vector<int> coordinators;
  for (int i = 0; i < wanted; ++i) coordinators.push_back(i * num_ranks / wanted);
  return {cluster, std::move(parts), std::move(coordinators)};
}

}  // namespace colibri
