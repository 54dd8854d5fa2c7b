#include "launch/model_session.h"

#include <algorithm>

#include "base/error.h"
#include "coordinator/device_path.h"
#include "coordinator/exchange.h"
#include "coordinator/host_path.h"
#include "coordinator/kv_cache.h"
#include "coordinator/route_recorder.h"
#include "launch/dense_shapes.h"
#include "launch/gpu_plan.h"
#include "launch/load_progress.h"
#include "launch/session_setup.h"
#include "topology/memory_plan.h"
#include "topology/placement_file.h"
#include "topology/system_memory.h"
#include "transport/collectives.h"
#include "transport/control.h"
#include "transport/row_batch.h"
#include "worker/device_worker.h"
#include "worker/worker.h"

namespace colibri {

// Rows that the head is probed for; more are cut.
static constexpr int64_t kMaxHeadRows = 64;

struct ModelSession::Coordinator {
  RouteObservers observers;
  std::unique_ptr<RouteOverride> routing;
  CoordinatorWeights weights;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<ExpertExchange> exchange;
  std::unique_ptr<ExpertPath> path;
  std::unique_ptr<Forward> forward;
  std::unique_ptr<Engine> engine;
};

ModelSession::ModelSession(const CommonOptions& options, RankContext& context,
                           const Prepare& prepare, const SessionHooks& hooks)
    : options_(options),
      context_(context),
      hooks_(hooks),
      kv_dtype_(parse_kv_dtype(options.kv_dtype, context.device.is_cuda())),
      activations_(parse_activations(options.activations, context.device.is_cuda())) {
  const int64_t start_ms = int64_t{options.start_timeout_s} * 1000;
  agreed(context, "opening the model", start_ms, [&] { open(prepare); });
  compare_with_others(start_ms);
  // When rank 0 is done all are, or have stalled; a worker waits until the slowest is done.
  const int64_t load_ms =
      start_ms + (context.is_root() ? 0 : load_allowance_ms(checkpoint_->summary().total_bytes));
  agreed(context, "loading the weights", load_ms, [&] { load(); });
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
      {"form of the experts' rows", to_string(row_dtype())}};
  try {
    for (const auto& [name, value] : values) {
      agree_same(*context_.transport, name, value, Deadline::after_ms(timeout_ms));
    }
  } catch (const Error& error) {
    throw AgreedError(error.kind(), error.what());
  }
}

Backend ModelSession::backend() {
  return {backend_.device.get(), backend_.stream.get(), backend_.ops.get(), pool_.get(),
          activations_};
}

LocalExperts& ModelSession::experts_for_host_rows() {
  if (staged_) return *staged_;
  return *shard_;
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
  checkpoint_ = open_model(options_, formats_);
  shape_ = model_shape(checkpoint_->config(), formats_, kv_dtype_);
  if (context_.is_root()) needs_ = prepare(*checkpoint_);
  if (context_.is_root() && !options_.record_routes.empty()) {
    recorder_ = std::make_unique<RouteRecorder>(options_.record_routes, shape_);
  }
  PlacementOptions placement;
  placement.num_ranks = context_.size;
  placement.coordinator_experts = options_.coordinator_experts;
  placement_ = make_placement(parse_placement_option(options_.placement), shape_, placement);
  check_memory_plan();
  const ThreadPool::Options pool = pool_options(options_, context_);
  // Before the pool starts its threads, which inherit this one's cores.
  if (options_.bind == "own") bind_this_thread(pool.cpus.empty() ? allowed_cpus() : pool.cpus);
  pool_ = std::make_unique<ThreadPool>(pool);
  const bool multiplies_bf16 = context_.is_root() && activations_ == DType::kBF16;
  const auto dense = multiplies_bf16
                         ? dense_shapes(*checkpoint_, formats_, max_step_tokens(), kMaxHeadRows)
                         : std::vector<DenseShape>{};
  backend_ = make_session_backend(options_, hooks_, context_, *pool_, dense);
}

// Only rank 0 knows the context that is wanted, so its check is the strict one.
void ModelSession::check_memory_plan() const {
  MemoryPlanOptions options;
  options.max_context = max_context();
  options.max_batch = num_sequences();
  options.max_tokens = max_step_tokens();
  options.coordinator_workspace_bytes =
      attention_workspace_bytes(checkpoint_->config(), max_step_tokens());
  if (context_.device.is_cuda()) {
    return check_gpu_plan(shape_, *placement_, options, context_);
  }
  const bool one_node = context_.num_local_ranks == context_.size;
  if (!one_node) return;
  const std::vector<RankMemory> plan = plan_memory(shape_, *placement_, options);
  const std::vector<NodeMemory> nodes = {{"this machine", read_system_memory().usable_bytes()}};
  if (context_.is_root()) context_.log->info("memory plan\n{}", memory_table(plan, nodes));
  check_memory(plan, nodes);
}

int64_t ModelSession::max_context() const {
  return options_.max_context > 0 ? options_.max_context : needs_.max_context;
}

int ModelSession::num_sequences() const {
  return std::min(max_batch(), std::max(needs_.num_sequences, 1));
}

void ModelSession::load() {
  LoadProgress progress(context_, share_bytes(*checkpoint_, *placement_, context_.rank),
                        int64_t{options_.start_timeout_s} * 1000);
  try {
    ShardOptions shard;
    shard.rank = context_.rank;
    shard.formats = formats_;
    shard.max_pairs = max_step_tokens() * shape_.top_k;
    shard.on_bytes = [&](uint64_t bytes) { progress.add(bytes); };
    const NamedRange range(*backend_.device, "load weights");
    shard_ = std::make_unique<ExpertShard>(*checkpoint_, *placement_, shard, backend());
    if (backend_.device->place() != Place::kHost) {
      staged_ = std::make_unique<StagedExperts>(
          *shard_, backend(), TokenRows{nullptr, row_dtype(), shape_.hidden_size},
          StagedExperts::Limits{max_step_tokens(), shard.max_pairs});
    }
    if (context_.is_root()) {
      coordinator_ = std::make_unique<Coordinator>();
      coordinator_->weights = load_coordinator_weights(
          *checkpoint_, formats_, backend(), [&](uint64_t bytes) { progress.add(bytes); });
      make_coordinator();
    }
  } catch (...) {
    progress.finish();  // so that rank 0 does not wait for the rest; the error is agreed on next
    throw;
  }
  progress.finish();
}

void ModelSession::make_coordinator() {
  const ModelConfig& config = checkpoint_->config();
  const int batch = num_sequences();
  const int64_t pages_each = (max_context() + kTile - 1) / kTile;
  Coordinator& c = *coordinator_;
  c.cache = std::make_unique<KvCache>(kv_layout_of(config.attention, kv_dtype_), config.num_layers,
                                      static_cast<int32_t>(pages_each * batch), backend());
  c.exchange =
      make_exchange({.transport = context_.transport,
                     .local = options_.self_exchange ? &experts_for_host_rows()
                                                     : static_cast<LocalExperts*>(shard_.get()),
                     .device = backend_.device.get(),
                     .ops = backend_.ops.get(),
                     .row_dtype = row_dtype(),
                     .hidden_size = config.hidden_size,
                     .num_layers = config.num_layers,
                     .max_tokens = max_step_tokens(),
                     .top_k = config.top_k,
                     .may_spin = may_spin(context_),
                     .self_exchange = options_.self_exchange});
  if (hooks_.make_routing) c.routing = hooks_.make_routing(config);
  if (recorder_) c.observers.add(*recorder_);
  make_path();
  c.forward = std::make_unique<Forward>(ForwardContext{.config = &config,
                                                       .weights = &c.weights,
                                                       .cache = c.cache.get(),
                                                       .device = backend_.device.get(),
                                                       .ops = backend_.ops.get(),
                                                       .stream = backend_.stream.get(),
                                                       .activations = activations_,
                                                       .max_tokens = max_step_tokens()},
                                        MoeLayerParts{c.path.get(), row_dtype()});
  c.engine = std::make_unique<Engine>(
      *c.forward, *c.cache, config.vocab_size,
      EngineOptions{.limits = {.max_tokens = max_step_tokens(), .chunk = options_.chunk},
                    .max_context = max_context(),
                    .max_batch = batch,
                    .step_timeout_ms = int64_t{options_.step_timeout_s} * 1000});
}

void ModelSession::make_path() {
  const ModelConfig& config = checkpoint_->config();
  Coordinator& c = *coordinator_;
  if (!backend_.link) {
    c.path = make_host_path({.device = backend_.device.get(),
                             .config = &config,
                             .placement = &*placement_,
                             .exchange = c.exchange.get(),
                             .routing = c.routing.get(),
                             .observer = &c.observers});
    return;
  }
  c.path = make_device_path({.backend = backend(),
                             .config = &config,
                             .placement = &*placement_,
                             .link = backend_.link.get(),
                             .transport = context_.transport,
                             .local = shard_.get(),
                             .observer = &c.observers,
                             .routing = c.routing.get(),
                             .row_dtype = row_dtype(),
                             .max_tokens = max_step_tokens(),
                             .fixed = backend_.fixed_capacity,
                             .self_exchange = options_.self_exchange});
}

int ModelSession::run(const Serve& serve) {
  return context_.is_root() ? run_coordinator(serve) : run_worker();
}

int ModelSession::run_coordinator(const Serve& serve) {
  Coordinator& c = *coordinator_;
  Serving serving{*c.engine, *c.forward, *c.cache, c.observers};
  try {
    const int code = serve(serving);
    if (recorder_) recorder_->commit();
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

// Tells every living worker to leave and waits for the answers. A worker that cannot be told is
// left to the launcher.
void ModelSession::stop_workers(int code, int64_t timeout_ms) {
  if (context_.transport == nullptr || context_.size == 1) return;
  Transport& transport = *context_.transport;
  const auto dead = transport.dead_ranks();
  struct Messages {
    std::vector<std::byte> stop;
    std::vector<std::vector<std::byte>> answers;
  };
  const auto messages = std::make_shared<Messages>();
  messages->stop = encode_control(0, transport.epoch(), StopBody{.exit_code = code});
  messages->answers.resize(static_cast<size_t>(context_.size));
  std::vector<Pending> pending;
  for (int rank = 1; rank < context_.size; ++rank) {
    if (std::find(dead.begin(), dead.end(), rank) != dead.end()) continue;
    auto& answer = messages->answers[static_cast<size_t>(rank)];
    answer.resize(kMaxControlBytes);
    const SendOp send{rank, Channel::kControl, messages->stop.data(), messages->stop.size()};
    const RecvOp recv{rank, Channel::kControl, answer.data(), answer.size()};
    pending.push_back(transport.post({{&send, 1}, {&recv, 1}}, nullptr));
  }
  try {
    transport.wait(pending, Deadline::after_ms(timeout_ms), "workers to leave");
  } catch (const Error& error) {
    transport.keep(messages);  // late answers may still arrive in these buffers
    context_.log->info("not every rank was told to leave: {}", error.what());
  }
}

int ModelSession::run_worker() {
  const WorkerOptions options{.coordinators = {0},
                              .row_dtype = row_dtype(),
                              .hidden_size = checkpoint_->config().hidden_size,
                              .num_layers = checkpoint_->config().num_layers,
                              .max_rows = max_step_tokens(),
                              .max_pairs = max_step_tokens() * shape_.top_k,
                              .may_spin = may_spin(context_)};
  if (backend_.link) {
    return DeviceWorker({backend(), backend_.link.get(), context_.transport, shard_.get()}, options)
        .run();
  }
  return Worker(*context_.transport, experts_for_host_rows(), options).run(*backend_.stream);
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
