// One mixture-of-experts layer: route, begin, shared expert, own slots, finish, combine.
#pragma once

#include "coordinator/dense_mlp.h"
#include "coordinator/expert_path.h"
#include "coordinator/forward_context.h"

namespace colibri {

// Where the experts live, as the layer sees it. The path outlives it.
struct MoeLayerParts {
  ExpertPath* path = nullptr;
  DType row_dtype = DType::kF32;  // of the rows that the experts take: f32, bf16 or i8
};

class MoeLayer {
 public:
  // `mlp` runs the shared expert; it outlives this.
  MoeLayer(const ForwardContext& context, const MoeLayerParts& parts, DenseMlp& mlp);

  // normed [T, H] -> hidden [T, H] += experts(normed).
  // Errors: those of ExpertPath.
  void run(int layer, const Batch& batch, const float* normed, const Deadline& deadline,
           float* hidden);

  ExpertPath& path() { return *parts_.path; }
  const ExpertPath& path() const { return *parts_.path; }
  const LoadStats& load_stats() const { return parts_.path->load_stats(); }

 private:
  // What the router chose in a layer.
  struct Choice {
    int32_t* ids;    // [T, K]
    float* weights;  // [T, K]
  };
  Choice choice(int layer, int64_t num_tokens);
  void route(int layer, const float* normed, int64_t num_tokens);
  TokenRows expert_rows(const float* normed, int64_t num_tokens);
  void run_shared(const LayerWeights& w, const float* normed, int64_t num_tokens);
  void combine(int layer, const LocatedResults& results, int64_t num_tokens, float* hidden);

  ForwardContext context_;
  MoeLayerParts parts_;
  DenseMlp& mlp_;
  int64_t top_k_;
  Buffer expert_rows_;  // [T] rows as the experts take them, when that is not f32
  Buffer logits_;       // [T, E]
  Buffer expert_ids_;   // [L, T, K] int32, T of this step
  Buffer weights_;      // [L, T, K]
  Buffer shared_;       // [T, H]
  Buffer shared_gate_;  // [T]
};

}  // namespace colibri
