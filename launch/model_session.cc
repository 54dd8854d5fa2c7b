#include "launch/model_session.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <random>

#include "base/error.h"
#include "coordinator/device_path.h"
#include "coordinator/host_path.h"
#include "launch/cuda_backend.h"
#include "launch/dense_shapes.h"
#include "launch/load_progress.h"
#include "launch/recorded_loads.h"
#include "launch/session_parts.h"
#include "launch/session_setup.h"
#include "topology/placement_file.h"
#include "topology/replan.h"
#include "transport/collectives.h"
#include "transport/control.h"
#include "transport/local_transport.h"
#include "transport/row_batch.h"
#include "worker/device_worker.h"
#include "worker/worker.h"

namespace colibri {

// Rows that the head is probed for; more are cut.
static constexpr int64_t kMaxHeadRows = 64;

ModelSession::ModelSession(const CommonOptions& options, RankContext& context,
                           const Prepare& prepare, const SessionHooks& hooks)
    : options_(options),
      context_(context),
      hooks_(hooks),
      kv_dtype_(parse_kv_dtype(options.kv_dtype, context.device.is_cuda())),
      activations_(parse_activations(options.activations, context.device.is_cuda())),
      trace_(context.rank) {
  const int64_t start_ms = int64_t{options.start_timeout_s} * 1000;
  agreed(context, "opening the model", start_ms, [&] { open(prepare); });
  const std::vector<int64_t> capacity_slots = agreed_capacities(start_ms);
  planned_ = planned_placement(capacity_slots, start_ms);
  agreed(context, "planning", start_ms, [&] { place(capacity_slots); });
  compare_with_others(start_ms);
  // When rank 0 is done all are, or have stalled; a worker waits until the slowest is done.
  const int64_t load_ms =
      start_ms + (context.is_root() ? 0 : load_allowance_ms(checkpoint_->summary().total_bytes));
  const auto start = std::chrono::steady_clock::now();
  agreed(context, "loading the weights", load_ms, [&] { load(); });
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ModelSession::~ModelSession() = default;

// A rank of another build or with other files would give other bits.
void ModelSession::compare_with_others(int64_t timeout_ms) const {
  if (context_.transport == nullptr) return;
  const std::string wire = std::to_string(kWireVersion) + "." + std::to_string(kControlVersion);
  const std::pair<std::string, std::string> values[] = {
      {"version", kVersion},
      {"wire version", wire},
      {"backend", backend_.text()},
      {"weights fingerprint", checkpoint_->fingerprint()},
      {"form of the experts' rows", to_string(row_dtype())},
      {"form of the experts' results", to_string(activations_)}};
  try {
    for (const auto& [name, value] : values) {
      agree_same(*context_.transport, name, value, Deadline::after_ms(timeout_ms));
    }
  } catch (const Error& error) {
    throw AgreedError(error.kind(), error.what());
  }
}

ModelSession::Site ModelSession::site() {
  return {
      context_.rank,
      &*placement_,
      {backend_.device.get(), backend_.stream.get(), backend_.ops.get(), pool_.get(), activations_},
      backend_.link.get(),
      backend_.fixed_capacity};
}

int64_t ModelSession::max_step_tokens() const {
  return std::max<int64_t>(options_.chunk, max_batch());
}

DType ModelSession::row_dtype() const {
  const DType kept =
      kept_dtype(TensorRole::kExpertGate, checkpoint_->config().checkpoint_dtype, formats_);
  return row_dtype_for(kept, activations_);
}

std::string ModelSession::weights_text() const {
  const auto kept = [&](TensorRole role, int layer) {
    const TensorKey key{role, layer, role == TensorRole::kExpertGate ? 0 : -1};
    return to_string(kept_dtype(role, checkpoint_->range(key).dtype, formats_));
  };
  const auto& is_moe = checkpoint_->config().layer_is_moe;
  const bool tied = checkpoint_->config().tied_embeddings;
  const auto first_moe = std::find(is_moe.begin(), is_moe.end(), true) - is_moe.begin();
  return std::string(kept(TensorRole::kExpertGate, static_cast<int>(first_moe))) + " experts, " +
         kept(TensorRole::kO, 0) + " attention, " +
         kept(tied ? TensorRole::kEmbedding : TensorRole::kLmHead, -1) + " head";
}

int ModelSession::max_batch() const {
  return options_.max_batch > 0 ? options_.max_batch : kDefaultMaxBatch;
}

void ModelSession::open(const Prepare& prepare) {
  formats_ = parse_weight_formats(options_.weights, options_.dense_weights);
  checkpoint_ =
      hooks_.shape ? random_model(*hooks_.shape, formats_) : open_model(options_, formats_);
  shape_ = model_shape(checkpoint_->config(), formats_, kv_dtype_);
  if (context_.is_root()) needs_ = prepare(*checkpoint_);
  if (context_.is_root() && !options_.record_routes.empty()) {
    recorder_ = std::make_unique<RouteRecorder>(options_.record_routes, shape_);
  }
  if (context_.is_root() && !options_.record_loads.empty()) {
    load_recorder_ = std::make_unique<LoadRecorder>(shape_);
    // Another model's file is refused before anything is loaded.
    read_earlier_loads(options_, shape_);
  }
  if (context_.transport == nullptr) alone_ = LocalFabric(1).endpoint(0);
  if (context_.device.is_cuda()) {
    gpu_memory_ = context_.device.backend->read_gpu_memory(context_.device.gpu.ordinal);
  }
}

void ModelSession::place(std::vector<int64_t> capacity_slots) {
  const PlacementChoice choice = parse_placement_option(options_.placement);
  capacity_slots_ = capacity_slots;
  placement_ = planned_ ? planned_
                        : make_placement(choice, shape_,
                                         {.num_ranks = context_.size,
                                          .coordinator_experts = options_.coordinator_experts,
                                          .capacity_slots = std::move(capacity_slots)});
  const bool is_told = choice.kind == PlacementKind::kFile || choice.kind == PlacementKind::kAuto;
  const std::string unasked =
      is_told ? "" : unasked_text(*placement_, options_.coordinator_experts);
  if (context_.is_root() && !unasked.empty()) context_.log->warn("{}", unasked);
  check_memory_plan();
  if (context_.is_root() && needs_.survives_one) {
    check_survives_one(shape_, *placement_, capacity_slots_);
  }
  const ThreadPool::Options pool = pool_options(options_, context_);
  // Before the pool starts its threads, which inherit this one's cores.
  if (options_.bind == "own") bind_this_thread(pool.cpus.empty() ? allowed_cpus() : pool.cpus);
  pool_ = std::make_unique<ThreadPool>(pool);
  backend_ =
      make_session_backend(options_, hooks_, context_, *pool_, dense_shapes_of(context_.rank));
}

std::vector<DenseShape> ModelSession::dense_shapes_of(int rank) const {
  if (rank != 0 || activations_ != DType::kBF16) return {};
  return dense_shapes(*checkpoint_, formats_, max_step_tokens(), kMaxHeadRows);
}

int64_t ModelSession::max_context() const {
  return options_.max_context > 0 ? options_.max_context : needs_.max_context;
}

int ModelSession::num_sequences() const {
  return std::min(max_batch(), std::max(needs_.num_sequences, 1));
}

int64_t ModelSession::max_scored_tokens() const {
  return needs_.scores_prompts ? max_step_tokens() : needs_.max_scored_tokens;
}

int64_t ModelSession::max_logit_rows() const {
  return std::min(num_sequences() + max_scored_tokens(), max_step_tokens());
}

void ModelSession::load() {
  LoadProgress progress(context_, share_bytes(*checkpoint_, *placement_, context_.rank),
                        int64_t{options_.start_timeout_s} * 1000);
  try {
    const auto on_bytes = [&](uint64_t bytes) { progress.add(bytes); };
    const NamedRange range(*backend_.device, "load weights");
    experts_ = make_experts(site(), true, on_bytes);
    changes_ =
        std::make_unique<ShardChanges>(*checkpoint_, shape_, *experts_.shard, site().backend);
    if (context_.is_root()) {
      coordinator_ = std::make_unique<Coordinator>();
      Coordinator& c = *coordinator_;
      const int64_t before = backend_.device->allocated_bytes();
      c.weights = load_coordinator_weights(*checkpoint_, formats_, site().backend, on_bytes);
      taken_weight_bytes_ = backend_.device->allocated_bytes() - before;
      if (hooks_.make_routing) c.routing = hooks_.make_routing(checkpoint_->config());
      if (recorder_) c.observers.add(*recorder_);
      if (load_recorder_) c.observers.add(*load_recorder_);
      make_cache(site(), c);
      make_path(site(), experts_, c);
      make_forward(site(), c);
      make_engine(c);
      make_ranks(c);
    }
    check_taken();
  } catch (...) {
    progress.finish();  // so that rank 0 does not wait for the rest; the error is agreed on next
    throw;
  }
  progress.finish();
}

ModelSession::Experts ModelSession::make_experts(const Site& site, bool reads_weights,
                                                 const ShardBytesRead& on_bytes) const {
  ShardOptions options;
  options.rank = site.rank;
  options.formats = formats_;
  options.max_pairs = max_step_tokens() * shape_.top_k;
  options.on_bytes = on_bytes;
  options.reads_weights = reads_weights;
  Experts made;
  made.shard = std::make_unique<ExpertShard>(*checkpoint_, *site.placement, options, site.backend);
  const bool rows_come_by_host = site.link == nullptr && (site.rank > 0 || options_.self_exchange);
  if (site.backend.device->place() == Place::kHost || !rows_come_by_host) return made;
  made.staged = std::make_unique<StagedExperts>(
      *made.shard, site.backend, TokenRows{nullptr, row_dtype(), shape_.hidden_size},
      StagedExperts::Limits{max_step_tokens(), options.max_pairs});
  return made;
}

void ModelSession::make_cache(const Site& site, Coordinator& c) const {
  const ModelConfig& config = checkpoint_->config();
  const int64_t pages_each = (max_context() + kTile - 1) / kTile;
  c.cache =
      std::make_unique<KvCache>(kv_layout_of(config.attention, kv_dtype_), config.num_layers,
                                static_cast<int32_t>(pages_each * num_sequences()), site.backend);
}

void ModelSession::make_path(const Site& site, Experts& experts, Coordinator& c) const {
  const ModelConfig& config = checkpoint_->config();
  if (site.link == nullptr) {
    c.exchange = make_exchange({.transport = context_.transport,
                                .local = options_.self_exchange
                                             ? &experts.for_host_rows()
                                             : static_cast<LocalExperts*>(experts.shard.get()),
                                .device = site.backend.device,
                                .ops = site.backend.ops,
                                .row_dtype = row_dtype(),
                                .result_dtype = activations_,
                                .hidden_size = config.hidden_size,
                                .num_layers = config.num_layers,
                                .max_tokens = max_step_tokens(),
                                .top_k = config.top_k,
                                .may_spin = may_spin(context_),
                                .self_exchange = options_.self_exchange});
    c.path = make_host_path({.device = site.backend.device,
                             .config = &config,
                             .placement = site.placement,
                             .max_tokens = max_step_tokens(),
                             .exchange = c.exchange.get(),
                             .routing = c.routing.get(),
                             .observer = &c.observers});
    return;
  }
  c.path = make_device_path({.backend = site.backend,
                             .config = &config,
                             .placement = site.placement,
                             .link = site.link,
                             .transport = alone_ ? alone_.get() : context_.transport,
                             .local = experts.shard.get(),
                             .observer = &c.observers,
                             .routing = c.routing.get(),
                             .row_dtype = row_dtype(),
                             .max_tokens = max_step_tokens(),
                             .fixed = site.fixed,
                             .self_exchange = options_.self_exchange});
}

void ModelSession::make_forward(const Site& site, Coordinator& c) const {
  c.forward = std::make_unique<Forward>(ForwardContext{.config = &checkpoint_->config(),
                                                       .weights = &c.weights,
                                                       .cache = c.cache.get(),
                                                       .device = site.backend.device,
                                                       .ops = site.backend.ops,
                                                       .stream = site.backend.stream,
                                                       .activations = activations_,
                                                       .max_tokens = max_step_tokens(),
                                                       .max_logit_rows = max_logit_rows()},
                                        MoeLayerParts{c.path.get(), row_dtype()});
}

void ModelSession::make_engine(Coordinator& c) const {
  c.engine = std::make_unique<Engine>(
      *c.forward, *c.cache, checkpoint_->config().vocab_size,
      EngineOptions{
          .limits = {.max_tokens = max_step_tokens(),
                     .chunk = options_.chunk,
                     .max_scored = max_scored_tokens() > 0 ? max_scored_tokens()
                                                           : std::numeric_limits<int64_t>::max()},
          .max_context = max_context(),
          .max_batch = num_sequences(),
          .step_timeout_ms = int64_t{options_.step_timeout_s} * 1000,
          .prefix_salt = needs_.shares_prefixes ? std::optional<uint64_t>(std::random_device()())
                                                : std::nullopt});
}

int ModelSession::run(const Serve& serve) {
  return context_.is_root() ? run_coordinator(serve) : run_worker();
}

int ModelSession::run_coordinator(const Serve& serve) {
  Coordinator& c = *coordinator_;
  RankTracer tracer(context_.transport, trace_, *c.forward);
  Serving serving{*c.engine, *c.forward, *c.cache, c.observers, *c.ranks, tracer};
  try {
    const int code = serve(serving);
    check_taken();
    if (recorder_) recorder_->commit();
    if (load_recorder_) write_recorded_loads(options_, shape_, load_recorder_->loads());
    stop_workers(code, kStopTimeoutMs);
    return code;
  } catch (const Error& error) {
    // After a loss or a time-out nobody is waited for long: who lives sees this rank's end anyway.
    const bool lost = error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kRankLost;
    stop_workers(exit_code(error.kind()), lost ? kStopAfterLossMs : kStopTimeoutMs);
    throw;
  } catch (...) {
    stop_workers(exit_code(ErrorKind::kInternal), kStopTimeoutMs);
    throw;
  }
}

WorkerOptions ModelSession::worker_options() const {
  return {.coordinators = {0},
          .row_dtype = row_dtype(),
          .result_dtype = activations_,
          .hidden_size = checkpoint_->config().hidden_size,
          .num_layers = checkpoint_->config().num_layers,
          .max_rows = max_step_tokens(),
          .max_pairs = max_step_tokens() * shape_.top_k,
          .may_spin = may_spin(context_),
          .holder = changes_.get()};
}

int ModelSession::run_worker() {
  WorkerOptions options = worker_options();
  options.trace = &trace_;
  if (backend_.link) {
    DeviceWorkerParts parts{site().backend, backend_.link.get(), context_.transport,
                            experts_.shard.get()};
    if (may_relink()) {
      parts.join_link = [this](auto members, const LinkId& id) { return join_link(members, id); };
    }
    DeviceWorker worker(parts, options);
    check_taken();
    return worker.run();
  }
  return Worker(*context_.transport, experts_.for_host_rows(), options).run(*backend_.stream);
}

ExchangeTotals ModelSession::exchange_totals() const { return coordinator_->path->totals(); }

FixedStepTotals ModelSession::fixed_steps() const { return coordinator_->path->fixed_steps(); }

const LoadStats& ModelSession::load_stats() const { return coordinator_->forward->load_stats(); }

int run_session(const CommonOptions& options, RankContext& context,
                const ModelSession::Prepare& prepare, const SessionHooks& hooks,
                const ServeSession& serve) {
  const auto session = std::make_shared<ModelSession>(options, context, prepare, hooks);
  try {
    return session->run([&](Serving& serving) { return serve(*session, serving); });
  } catch (...) {
    if (context.transport != nullptr) context.transport->keep(session);
    throw;
  }
}

}  // namespace colibri
