// What a step consists of, and what its parts cost on a machine: pure functions of the model's
// shape, the step and the machine. docs/placement.md has the formulas and where constants are from.
#pragma once

#include <cstdint>
#include <vector>

#include "base/model_shape.h"
#include "topology/cluster.h"
#include "topology/layer_terms.h"

namespace colibri {

// One step, of all coordinators together.
struct StepSize {
  double num_tokens = 1;  // T
  double positions = 1;   // that all tokens see, one after the other: what attention computes
  double kv_reads = 1;    // positions of the cache that are read: each sequence's once
  double logit_rows = 1;
};
// The next token of `batch` sequences, each of which sees `context` positions.
StepSize decode_step(double batch, double context);
// `chunk` tokens of one prompt after `before` others, without logits.
StepSize prefill_step(double chunk, double before);

// Widths, as the shape's bytes tell them.
struct StepFormats {
  bool has_narrow_experts = false;  // at most one byte and a quarter a weight
  bool has_narrow_dense = false;
  double row_bytes = 0, result_bytes = 0;  // of one row, one result on the wire (docs/wire.md)
};
// Rows are bf16 (GPU) or f32 (CPU), or int8 with scales (1.125 bytes a value) for narrow experts;
// results are bf16 or f32.
StepFormats step_formats(const ModelShape& shape, bool is_gpu);

// One call of an operation. Without bytes and operations it is not called and takes no time.
struct OpUse {
  OpKind kind = OpKind::kElementwise;
  bool is_narrow = false;
  double bytes = 0, operations = 0;
  double us(const DeviceSpec& device) const {
    return bytes == 0 && operations == 0 ? 0 : device.cost(kind, is_narrow).us(bytes, operations);
  }
};

// What a coordinator computes itself, in the mean over layers. Bytes of weights are read once a
// call, whatever the tokens. A multiply-add is two operations.
struct CoordinatorOps {
  OpUse dense;        // projections, router, dense layers
  OpUse attention;    // over the context
  OpUse elementwise;  // norms and residuals: 24 H bytes a token
  OpUse shared;       // shared expert of an MoE layer, while rows are under way
  OpUse combine;      // of an MoE layer: results read, weighed and added
  OpUse head;         // once a step
  OpUse picking;      // once a step: logits read
};
// `share` of the step's tokens are its own.
CoordinatorOps coordinator_ops(const ModelShape& shape, const StepFormats& formats,
                               const StepSize& step, double share);

// `touched` experts with `pairs` rows together.
OpUse expert_op(const ModelShape& shape, const StepFormats& formats, double touched, double pairs);

// Where ranks run, and which of them run attention for their share of the tokens.
struct StepRanks {
  const Cluster& cluster;
  std::vector<int> parts;         // [R] as default_rank_parts gives them
  std::vector<int> coordinators;  // ranks, ascending; at least one
  bool is_symmetric() const { return coordinators.size() == parts.size(); }
  const DeviceSpec& device(size_t rank) const { return cluster.device_of(parts[rank]); }
};
// `num_coordinators` of the ranks, spread evenly, rank 0 first: every rank when it is 0. kInput
// when there are more than ranks.
StepRanks step_ranks(const Cluster& cluster, std::vector<int> parts, int num_coordinators);

// Terms of an MoE layer. Links: each row passes the way from its coordinator to the rank, results
// the way back; equal shares of the tokens. Experts: OpCost's curve is replaced by its tangent at
// the mean rank (equal shares of E experts over the ranks that do not coordinate, or over all), so
// it is exact there and never too high elsewhere. exchange_us: two starts of an exchange and the
// longest way's latency twice.
// Cost: O(N R links on a way) after ClusterRoutes.
LayerTerms layer_terms(const ModelShape& shape, const StepFormats& formats, const StepSize& step,
                       const StepRanks& ranks);

}  // namespace colibri
