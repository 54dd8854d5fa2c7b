// Latent attention (DeepSeek) in absorbed form, in prefill and decode alike: the cache keeps one
// row [c | k_rope] a position for all heads; queries are taken into the latent space, results out
// of it.
//
//   q_lat[h]  = k_up[h] q_nope[h]          [C]        score = q_lat . c + q_rope . k_rope
//   out[h]    = v_up[h] (sum of p c)       [v]        1088 against 320 multiply-adds per pair and
//   head for
//                                                     DeepSeek-V3: the price of one order of sums
//                                                     (docs/design.md)
#pragma once

#include "coordinator/forward_context.h"

namespace colibri {

class LatentAttention {
 public:
  // Takes its memory only if the model's attention is of this kind.
  explicit LatentAttention(const ForwardContext& context);

  // normed [T, H] -> hidden [T, H] += attention(normed). Writes this layer's latent rows.
  void run(int layer, const Batch& batch, const float* normed, const RopeTables& rope,
           float* hidden);

 private:
  void make_queries(const LatentWeights& w, const float* normed, const RopeTables& rope,
                    int64_t num_tokens);
  void make_latent_row(const LatentWeights& w, const float* normed, const RopeTables& rope,
                       int64_t num_tokens);
  void attend(int layer, const Batch& batch);
  void project_out(const LatentWeights& w, int64_t num_tokens, float* hidden);
  void norm(Buffer& x, const WeightVector& weight, int64_t num_tokens, int64_t stride);

  ForwardContext context_;
  int64_t heads_ = 0, latent_dim_ = 0, key_dim_ = 0;
  Buffer q_a_;        // [T, q_lora]
  Buffer q_nope_;     // [T, heads, nope]
  Buffer q_;          // [T, heads, C + rope]
  Buffer row_;        // [T, C + rope]
  Buffer out_;        // [T, heads, C]
  Buffer values_;     // [T, heads, v]
  Buffer projected_;  // [T, H]
  Buffer scratch_;
};

}  // namespace colibri
