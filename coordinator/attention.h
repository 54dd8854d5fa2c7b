// Grouped-query attention of one layer: projections, q/k norm, rotary positions, cache, output.
#pragma once

#include "coordinator/forward_context.h"

namespace colibri {

class GroupedQueryAttention {
 public:
  // Takes its memory only if the model's attention is of this kind.
  explicit GroupedQueryAttention(const ForwardContext& context);

  // normed [T, H] -> hidden [T, H] += attention(normed). Writes this layer's keys and values.
  void run(int layer, const Batch& batch, const float* normed, const RopeTables& rope,
           float* hidden);

 private:
  void project(const GroupedQueryWeights& w, const float* normed, int64_t num_tokens);
  void norm_heads(const GroupedQueryWeights& w, int64_t num_tokens);
  void attend(int layer, const Batch& batch);

  ForwardContext context_;
  int64_t q_width_, kv_width_;
  Buffer q_, k_, v_, out_;  // [T, heads * head_dim], [T, kv_heads * head_dim] twice, as q
  Buffer projected_;        // [T, H]
  Buffer scratch_;
};

}  // namespace colibri
