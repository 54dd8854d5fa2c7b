// One rank's part of serving a model: open, plan, load, then either be the coordinator or serve it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/device.h"
#include "base/thread_pool.h"
#include "coordinator/engine.h"
#include "coordinator/expert_ranks.h"
#include "coordinator/load_recorder.h"
#include "coordinator/rank_tracer.h"
#include "coordinator/route_observer.h"
#include "coordinator/route_override.h"
#include "coordinator/route_recorder.h"
#include "coordinator/weights.h"
#include "launch/rank_context.h"
#include "launch/run_config.h"
#include "launch/session_backend.h"
#include "model/checkpoint.h"
#include "topology/gpu_memory_plan.h"
#include "topology/memory_plan.h"
#include "topology/placement.h"
#include "worker/expert_shard.h"
#include "worker/shard_changes.h"
#include "worker/staged_experts.h"
#include "worker/worker.h"

namespace colibri {

// What the requests need; only rank 0 knows.
struct SessionNeeds {
  int64_t max_context = 0;
  int num_sequences = 1;
  bool scores_prompts = false;    // logits of every token of a step, not of each sequence's last
  int64_t max_scored_tokens = 0;  // or of so many, beside each sequence's last
  // Prompts that begin like an earlier text reuse its keys and values.
  bool shares_prefixes = false;
  // Start only where the others have room for the experts of any one rank.
  bool survives_one = false;
};

// What a coordinator works with, inside ModelSession::run.
struct Serving {
  Engine& engine;
  Forward& forward;
  KvCache& cache;
  RouteObservers& observers;  // more may be added before a step
  ExpertRanks& ranks;
  RankTracer& tracer;
};

// What a run may replace. Functions that are not set leave things as they are.
struct SessionHooks : BackendHooks {
  // Another plan of this rank's GPU than the true one, which what was taken is then held against.
  std::function<void(GpuNeed&)> change_gpu_plan;
  // Rank 0: another choice of experts than the router's.
  std::function<std::unique_ptr<RouteOverride>(const ModelConfig&)> make_routing;
  // Random weights of this shape instead of --model and --shape, the same on all ranks.
  std::optional<ModelConfig> shape;
};

class ModelSession {
 public:
  // Runs on rank 0 once the checkpoint is open and before anything is loaded, so that a wrong
  // request costs no load.
  using Prepare = std::function<SessionNeeds(const Checkpoint&)>;

  // Opens the checkpoint, plans placement and memory, loads this rank's share and holds what it
  // took on a GPU against the plan. All ranks succeed or all fail with one error. `context`
  // outlives the session.
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
  // Of all ranks together, while the weights were loaded.
  double read_bytes_per_s() const {
    return static_cast<double>(checkpoint_->summary().total_bytes) / load_seconds_;
  }
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
  struct Site;
  // The shard, and where rows come from host memory into a GPU's, the way for them.
  struct Experts {
    std::unique_ptr<ExpertShard> shard;
    std::unique_ptr<StagedExperts> staged;

    LocalExperts& for_host_rows() {
      if (staged) return *staged;
      return *shard;
    }
  };

  void open(const Prepare& prepare);
  void compare_with_others(int64_t timeout_ms) const;
  void place(std::vector<int64_t> capacity_slots);
  // --placement auto (session_placement.cc): what rank 0 plans for, and its plan on every rank,
  // else nothing.
  void see_hosts(int64_t timeout_ms);
  std::optional<Placement> planned_placement(const std::vector<int64_t>& capacity_slots,
                                             int64_t timeout_ms);
  Placement plan_of_root(const std::vector<int64_t>& capacity_slots) const;
  void load();
  Site site();
  Experts make_experts(const Site& site, bool reads_weights, const ShardBytesRead& on_bytes) const;
  void make_cache(const Site& site, Coordinator& c) const;
  void make_path(const Site& site, Experts& experts, Coordinator& c) const;
  void make_forward(const Site& site, Coordinator& c) const;
  void make_engine(Coordinator& c) const;
  void make_ranks(Coordinator& c);
  bool may_relink() const;
  DeviceLink* join_link(std::span<const int> members, const LinkId& id);
  void check_room(const std::vector<int64_t>& new_slots) const;
  int run_coordinator(const Serve& serve);
  int run_worker();
  void stop_workers(int exit_code, int64_t timeout_ms);
  int64_t max_step_tokens() const;
  int max_batch() const;
  int64_t max_context() const;
  int num_sequences() const;
  int64_t max_scored_tokens() const;
  int64_t max_logit_rows() const;
  WorkerOptions worker_options() const;
  std::vector<DenseShape> dense_shapes_of(int rank) const;

  // Memory (session_plan.cc).
  MemoryPlanOptions plan_sizes() const;
  bool has_link() const;
  std::vector<int64_t> agreed_capacities(int64_t timeout_ms);
  std::vector<int64_t> capacities(std::span<const GpuMemory> memory) const;
  GpuNeed need_of(int rank, const Placement& placement) const;
  void add_parts(const Site& site, GpuNeed& need) const;
  void add_library(const Site& site, GpuNeed& need) const;
  void add_estimates(const Site& site, GpuNeed& need) const;
  void check_memory_plan();
  void check_gpu_plan();
  void check_taken() const;

  CommonOptions options_;
  RankContext& context_;
  std::unique_ptr<Transport> alone_;  // where the context has none
  SessionHooks hooks_;
  SessionNeeds needs_;
  ModelShape shape_;
  DType kv_dtype_;
  DType activations_;
  WeightFormats formats_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<Placement> placement_, planned_;
  std::unique_ptr<ThreadPool> pool_;
  SessionBackend backend_;
  GpuMemory gpu_memory_;         // before anything is taken; only on a GPU
  std::optional<GpuNeed> need_;  // of this rank; only on a GPU
  double load_seconds_ = 0;
  int64_t taken_weight_bytes_ = 0;  // of the coordinator's weights, on a GPU
  Experts experts_;
  std::vector<int64_t> capacity_slots_;          // [R]; empty: no limit is known
  std::unique_ptr<ShardChanges> changes_;        // of experts_.shard
  std::unique_ptr<RouteRecorder> recorder_;      // rank 0, --record-routes
  std::unique_ptr<LoadRecorder> load_recorder_;  // rank 0, --record-loads
  TraceLog trace_;
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
