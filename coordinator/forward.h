// The forward pass: embed, L layers, norm, logits. It reads like the paper.
#pragma once

#include <compare>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/deadline.h"
#include "base/graph_cache.h"
#include "coordinator/attention.h"
#include "coordinator/batch.h"
#include "coordinator/dense_mlp.h"
#include "coordinator/forward_context.h"
#include "coordinator/latent_attention.h"
#include "coordinator/moe_layer.h"
#include "coordinator/token_picker.h"

namespace colibri {

class Forward {
 public:
  // Takes all memory it will ever use, for at most context.max_tokens tokens a step, of which
  // context.max_logit_rows have logits. `experts` and everything in `context` outlive it.
  Forward(const ForwardContext& context, const MoeLayerParts& experts);
  Forward(const Forward&) = delete;  // its parts point into it
  Forward& operator=(const Forward&) = delete;

  // Writes the batch's keys and values and returns what batch.logit_rows want, [logit rows], in
  // host memory, valid until the next call. `step_timeout_ms` bounds each wait for the experts'
  // results. Errors: of ExpertExchange::finish; kInput when router logits, or logits of which a
  // token is picked, are not finite (damaged weights).
  std::span<const StepRow> run(const Batch& batch, int64_t step_timeout_ms);

  // Of the steps' logits where the operations write them.
  size_t logits_bytes() const { return logits_.size_bytes(); }
  const LoadStats& load_stats() const { return moe_.load_stats(); }
  // Since it was made. Steps that a graph replays count no stage.
  const StageTimes& stage_times() const { return stages_; }
  ExchangeTotals exchange_totals() const { return moe_.path().totals(); }
  FixedStepTotals fixed_steps() const { return moe_.path().fixed_steps(); }
  // What graphs hold of experts or links has changed.
  void forget_graphs() { graphs_.clear(); }
  // Whether graphs may replay steps (yes): without them every operation is called in every step.
  void set_replays(bool replays) { replays_ = replays; }
  // Steps, layers and stages become spans of `trace`; null: no longer. A replayed step is one span.
  void set_trace(TraceLog* trace) { stages_.set_trace(trace); }

 private:
  // What a captured step depends on besides what lies in the device's memory.
  struct StepKey {
    int64_t num_tokens = 0;
    int32_t max_position = 0;
    uint64_t path = 0;  // ExpertPath::graph_key()
    StepPicks picks = StepPicks::kNone;
    auto operator<=>(const StepKey&) const = default;
  };

  const Batch& padded(const Batch& batch);
  const char* step_name(const Batch& batch) const;
  void reserve_logit_rows(int64_t num_logit_rows);
  void enqueue(const Batch& batch, int64_t step_timeout_ms);
  void layer(int l, const Batch& batch, int64_t step_timeout_ms);
  void embed(const Batch& batch);
  void attend(int l, const LayerWeights& w, const Batch& batch);
  void dense(const LayerWeights& w, const Batch& batch);
  void norm(const Buffer& x, const WeightVector& weight, int64_t num_rows, Buffer& out);
  void logits(const Batch& batch);

  ForwardContext with_own_parts(ForwardContext context) {
    context.linear = &linear_;
    context.inputs = &inputs_;
    context.stages = &stages_;
    return context;
  }

  StageTimes stages_;
  bool replays_ = true;
  Linear linear_;
  StepInputs inputs_;
  GraphCache<StepKey> graphs_;
  Batch padded_;
  ForwardContext context_;
  RopeTables rope_;
  GroupedQueryAttention grouped_;
  LatentAttention latent_;
  DenseMlp mlp_;
  MoeLayer moe_;
  TokenPicker picker_;
  Buffer hidden_;               // [T, H] the residual stream
  Buffer normed_;               // [T, H]
  Buffer last_;                 // [logit rows, H]
  Buffer logits_;               // [logit rows, V]
  int64_t max_logit_rows_ = 0;  // logit rows that last_, logits_ and picker_ hold
};

}  // namespace colibri
