// One rank's part of serving a model: open, plan, load, then either be the coordinator or serve it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/device.h"
#include "base/thread_pool.h"
#include "coordinator/engine.h"
#include "coordinator/route_observer.h"
#include "coordinator/route_override.h"
#include "coordinator/route_recorder.h"
#include "coordinator/weights.h"
#include "launch/rank_context.h"
#include "launch/run_config.h"
#include "launch/session_backend.h"
#include "model/checkpoint.h"
#include "topology/placement.h"
#include "worker/expert_shard.h"
#include "worker/staged_experts.h"

namespace colibri {

// What the requests need; only rank 0 knows.
struct SessionNeeds {
  int64_t max_context = 0;
  int num_sequences = 1;
};

// What a coordinator works with, inside ModelSession::run.
struct Serving {
  Engine& engine;
  Forward& forward;
  KvCache& cache;
  RouteObservers& observers;  // more may be added before a step
};

// What a run may replace. Functions that are not set leave things as they are.
struct SessionHooks : BackendHooks {
  // Rank 0: another choice of experts than the router's.
  std::function<std::unique_ptr<RouteOverride>(const ModelConfig&)> make_routing;
};

class ModelSession {
 public:
  // Runs on rank 0 once the checkpoint is open and before anything is loaded, so that a wrong
  // request costs no load.
  using Prepare = std::function<SessionNeeds(const Checkpoint&)>;

  // Opens the checkpoint, plans placement and memory, loads this rank's share. All ranks succeed or
  // all fail with one error. `context` outlives the session.
  ModelSession(const CommonOptions& options, RankContext& context, const Prepare& prepare,
               const SessionHooks& hooks = {});
  ~ModelSession();

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const Placement& placement() const { return *placement_; }
  const ModelShape& shape() const { return shape_; }
  const Ops& ops() const { return *backend_.ops; }
  Device& device() const { return *backend_.device; }
  ThreadPool& pool() { return *pool_; }
  // The form of the rows that experts take: i8 when they are q8 or q4.
  DType row_dtype() const;
  // "q4 experts, bf16 attention"
  std::string weights_text() const;

  // Rank 0: runs `serve`, ends the record of routes if one was asked for, then tells the workers to
  // leave with its result, or with the exit code of the error it threw. Other ranks: serve rows
  // until told to leave. Returns the exit code.
  using Serve = std::function<int(Serving&)>;
  int run(const Serve& serve);

  // Rank 0, inside or after serve: sums for the summary.
  ExchangeTotals exchange_totals() const;
  FixedStepTotals fixed_steps() const;
  const LoadStats& load_stats() const;

 private:
  struct Coordinator;

  void open(const Prepare& prepare);
  void compare_with_others(int64_t timeout_ms) const;
  void check_memory_plan() const;
  void load();
  void make_coordinator();
  void make_path();
  int run_coordinator(const Serve& serve);
  int run_worker();
  void stop_workers(int exit_code, int64_t timeout_ms);
  int64_t max_step_tokens() const;
  int max_batch() const;
  int64_t max_context() const;
  int num_sequences() const;
  Backend backend();
  LocalExperts& experts_for_host_rows();

  CommonOptions options_;
  RankContext& context_;
  SessionHooks hooks_;
  SessionNeeds needs_;
  ModelShape shape_;
  DType kv_dtype_;
  DType activations_;
  WeightFormats formats_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<Placement> placement_;
  std::unique_ptr<ThreadPool> pool_;
  SessionBackend backend_;
  std::unique_ptr<ExpertShard> shard_;
  std::unique_ptr<StagedExperts> staged_;    // the shard for rows in host memory; GPU only
  std::unique_ptr<RouteRecorder> recorder_;  // rank 0, --record-routes
  std::unique_ptr<Coordinator> coordinator_;
};

// What most verbs do: makes a session, runs `serve` on rank 0 and a worker on the others, returns
// the exit code. After an error the session stays as long as the transport, because messages may
// still be under way into its buffers.
using ServeSession = std::function<int(ModelSession& session, Serving& serving)>;
int run_session(const CommonOptions& options, RankContext& context,
                const ModelSession::Prepare& prepare, const SessionHooks& hooks,
                const ServeSession& serve);

}  // namespace colibri
