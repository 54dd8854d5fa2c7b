// serve --rebalance every=N: plans by recent loads and moves experts where that pays.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "coordinator/expert_ranks.h"
#include "coordinator/load_recorder.h"
#include "coordinator/serving_metrics.h"
#include "coordinator/task_thread.h"
#include "launch/model_session.h"
#include "launch/rank_context.h"
#include "topology/planner.h"
#include "topology/rank_map.h"

namespace colibri {

// What a move of experts would bring until the next look, and cost.
struct RebalanceOffer {
  double gain_us = 0;  // a step
  int64_t num_steps = 0, num_moves = 0, expert_bytes = 0;
  double read_bytes_per_s = 0;  // of all ranks together

  double saved_us() const { return gain_us * static_cast<double>(num_steps); }
  double cost_us() const;  // of reading; never below a millisecond
  // The gain is at least twice the cost: a prediction, against memory that is read for certain.
  bool is_worth_it() const { return num_moves > 0 && saved_us() > 2 * cost_us(); }
};

// All of it outlives the AutoRebalance.
struct RebalanceParts {
  const CommonOptions& options;
  const RankContext& context;
  const ModelSession& session;
  Serving& serving;
  ServingMetrics& metrics;
};

// step_done() on the engine's thread; plans on a thread of its own.
class AutoRebalance {
 public:
  // Counts choices from now on.
  AutoRebalance(const RebalanceParts& parts, int64_t every);

  // After a step. Each `every` of them it plans; a plan that pays is begun at the next call.
  // Nothing while ranks are lost, recovering or moving experts already.
  void step_done();

 private:
  struct Work {
    Placement now;
    ExpertLoads loads;
  };
  struct Offer {
    Placement next;
    RebalanceOffer offer;
  };
  void plan(const Work& work);
  void take_offer();
  bool is_quiet() const;

  const RankContext& context_;
  const ModelSession& session_;
  ServingMetrics& metrics_;
  ExpertRanks& ranks_;
  int64_t every_, num_steps_ = 0;
  RankMap map_;
  double batch_;
  LoadRecorder recorder_;
  std::optional<ExpertLoads> recent_;  // decayed
  std::mutex mutex_;                   // of offer_
  std::optional<Offer> offer_;
  TaskThread planning_;
};

}  // namespace colibri
