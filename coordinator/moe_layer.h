// One mixture-of-experts layer: route, plan, begin, shared expert, own slots, finish, combine.
#pragma once

#include "coordinator/dense_mlp.h"
#include "coordinator/dispatch_plan.h"
#include "coordinator/forward_context.h"
#include "coordinator/load_stats.h"
#include "transport/expert_exchange.h"

namespace colibri {

// Where the experts live, as the layer sees it. Both outlive it.
struct MoeLayerParts {
  const Placement* placement = nullptr;
  ExpertExchange* exchange = nullptr;
  DType row_dtype = DType::kF32;  // of the rows that the experts take: f32, bf16 or i8
};

class MoeLayer {
 public:
  // `mlp` runs the shared expert; it outlives this.
  MoeLayer(const ForwardContext& context, const MoeLayerParts& parts, DenseMlp& mlp);

  // normed [T, H] -> hidden [T, H] += experts(normed).
  // Errors: kInput when router logits are not finite; those of ExpertExchange::finish.
  void run(int layer, const Batch& batch, const float* normed, const Deadline& deadline,
           float* hidden);

  const LoadStats& load_stats() const { return stats_; }

 private:
  // What the router chose, [T, K] in host memory.
  struct Choice {
    std::span<int32_t> ids;
    std::span<float> weights;
  };
  Choice choice(int64_t num_tokens);
  void fetch_choice(const Choice& on_host);
  void dispatch(int layer, const float* normed, int64_t num_tokens);
  bool is_on_host() const { return context_.device->place() == Place::kHost; }
  TokenRows expert_rows(const float* normed, int64_t num_tokens);
  void route(int layer, const Batch& batch, const float* normed);
  void override_choice(int layer, const Batch& batch, const Choice& chosen);
  void check_choice(int layer, const Batch& batch, const Choice& chosen) const;
  void run_shared(const LayerWeights& w, const float* normed, int64_t num_tokens);
  void combine(const ExpertResults& results, const LayerWeights& w, int64_t num_tokens,
               float* hidden);

  ForwardContext context_;
  MoeLayerParts parts_;
  DenseMlp& mlp_;
  int64_t top_k_;
  Buffer expert_rows_;               // [T] rows as the experts take them, when that is not f32
  Buffer logits_;                    // [T, E]
  Buffer expert_ids_;                // [T, K] int32
  Buffer weights_;                   // [T, K]
  Buffer shared_;                    // [T, H]
  Buffer shared_gate_;               // [T]
  std::vector<int32_t> host_ids_;    // copies for the plan, where the host cannot read the others
  std::vector<float> host_weights_;  // [T, K] each
  DispatchPlan plan_;
  std::vector<int64_t> result_offset_;  // [T, K] floats
  UploadedArray<int64_t> device_result_offset_;
  LoadStats stats_;
};

}  // namespace colibri
