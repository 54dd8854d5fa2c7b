// The memory of a session, planned before anything is loaded: of a CPU's ranks by formulas, of GPUs
// by building every part on a device that only counts.
#include <algorithm>
#include <bit>

#include "base/counting_device.h"
#include "base/error.h"
#include "base/graph_cache.h"
#include "launch/cuda_backend.h"
#include "launch/gpu_plan.h"
#include "launch/session_parts.h"
#include "launch/session_setup.h"
#include "model/tensor_names.h"
#include "topology/memory_plan.h"
#include "topology/system_memory.h"
#include "transport/device_link.h"
#include "worker/device_worker.h"
#include "worker/load_to_backend.h"

namespace colibri {
namespace {

// A link over which nothing travels.
class PlannedLink : public DeviceLink {
 public:
  PlannedLink(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool can_be_captured() const override { return true; }
  void post(std::span<const DeviceSend>, std::span<const DeviceRecv>, Stream&) override {}
  void wait(Stream&, const Deadline&, const std::string&, const std::function<void()>&) override {}

 private:
  int rank_, size_;
};

// Every expert on one rank: what it needs then is the most it can need besides experts.
Placement all_on(int rank, int num_ranks, const ModelShape& shape) {
  PlacementOptions options{.num_ranks = num_ranks};
  options.capacity_slots.resize(static_cast<size_t>(num_ranks));
  options.capacity_slots[static_cast<size_t>(rank)] =
      int64_t{shape.num_moe_layers()} * shape.num_experts;
  return contiguous_placement(shape, options);
}

// Of a matrix or vector of the coordinator as the backend keeps it: packing changes no size, and
// cutting one up for latent attention neither.
int64_t kept_bytes(const Checkpoint& checkpoint, const TensorKey& key,
                   const WeightFormats& formats) {
  const TensorRange range = checkpoint.range(key);
  return matrix_bytes(kept_dtype(key.role, range.dtype, formats), range.rows, range.cols);
}

bool is_expert(TensorRole role) {
  return std::find(std::begin(kExpertRoles), std::end(kExpertRoles), role) !=
         std::end(kExpertRoles);
}

// Counts of padded decode steps up to `most` tokens, as Forward::padded has them.
int64_t num_step_sizes(int64_t most) {
  if (most <= 0) return 0;
  const int64_t small =
      std::bit_width(std::bit_ceil(static_cast<uint64_t>(std::min(most, int64_t{8}))));
  return small + (most > 8 ? (most - 1) / 8 : 0);
}

}  // namespace

MemoryPlanOptions ModelSession::plan_sizes() const {
  MemoryPlanOptions sizes;
  sizes.max_context = max_context();
  sizes.max_batch = num_sequences();
  sizes.max_tokens = max_step_tokens();
  sizes.coordinator_workspace_bytes =
      attention_workspace_bytes(checkpoint_->config(), max_step_tokens());
  // Logits of more rows than the formula has.
  sizes.coordinator_workspace_bytes += static_cast<int64_t>(sizeof(float)) * shape_.vocab_size *
                                       (max_logit_rows() - num_sequences());
  return sizes;
}

bool ModelSession::has_link() const { return hooks_.make_link || plans_on_gpu(options_, context_); }

// Only rank 0 knows the context that is wanted, so its check is the strict one.
void ModelSession::check_memory_plan() {
  if (context_.device.is_cuda()) return check_gpu_plan();
  const bool one_node = context_.num_local_ranks == context_.size;
  if (!one_node) return;
  const std::vector<RankMemory> plan = plan_memory(shape_, *placement_, plan_sizes());
  const std::vector<NodeMemory> nodes = {{"this machine", read_system_memory().usable_bytes()}};
  if (context_.is_root()) context_.log->info("memory plan\n{}", memory_table(plan, nodes));
  check_memory(plan, nodes);
}

// ---- GPUs ---------------------------------------------------------------------------------------

std::vector<int64_t> ModelSession::agreed_capacities(int64_t timeout_ms) {
  if (!context_.device.is_cuda() || context_.size == 1) return {};
  return agree_on_capacities(
      context_, gpu_memory_, timeout_ms,
      [this](std::span<const GpuMemory> memory) { return capacities(memory); });
}

// Rank 0's choice. The workers are alike but for their memory, so rank 1 stands for all.
std::vector<int64_t> ModelSession::capacities(std::span<const GpuMemory> memory) const {
  const int64_t num_slots = int64_t{shape_.num_moe_layers()} * shape_.num_experts;
  if (num_slots == 0) return {};
  const std::vector<GpuInfo>& gpus = context_.device.gpu_of_rank;
  const auto need_with = [&](int rank, int holder) {
    return need_of(rank, all_on(holder, context_.size, shape_));
  };
  const GpuNeed bare[] = {need_with(0, 1), need_with(1, 0)};
  GpuNeed most[] = {need_with(0, 0), need_with(1, 1)};
  const int64_t slot_bytes = (most[1].expert_bytes + num_slots - 1) / num_slots;
  most[0].expert_bytes = most[1].expert_bytes = 0;
  std::vector<GpuNeed> fixed;
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    const size_t kind = rank == 0 ? 0 : 1;
    check_gpu_memory(static_cast<int>(rank), bare[kind], gpus[rank], memory[rank]);
    fixed.push_back(most[kind]);
  }
  std::vector<int64_t> capacity = gpu_slot_capacities(fixed, slot_bytes, memory);
  check_expert_room({.num_slots = num_slots,
                     .slot_bytes = slot_bytes,
                     .capacity_slots = capacity,
                     .fixed = fixed,
                     .gpu_of_rank = gpus,
                     .memory = memory});
  return capacity;
}

// Of `rank` under `placement`, whoever asks.
GpuNeed ModelSession::need_of(int rank, const Placement& placement) const {
  // Also finds sizes that do not fit 64 bits.
  const RankMemory by_formula =
      plan_memory(shape_, placement, plan_sizes())[static_cast<size_t>(rank)];
  const auto device = make_counting_device();
  const auto stream = device->make_stream();
  auto ops = context_.device.backend->make_ops(*device, {});
  PlannedLink link(rank, context_.size);
  Site site{.rank = rank,
            .placement = &placement,
            .backend = {device.get(), stream.get(), ops.get(), pool_.get(), activations_},
            .link = has_link() ? &link : nullptr,
            .fixed = hooks_.fixed_capacity};
  if (site.link != nullptr && !hooks_.make_link)
    site.fixed = {kMaxFixedTokens, options_.fixed_share};
  GpuNeed need;
  if (site.link == nullptr) need.host_bytes = by_formula.message_bytes;
  if (rank == 0 && hooks_.wrap_ops) {
    ops = hooks_.wrap_ops(std::move(ops), *device);
    site.backend.ops = ops.get();
    need.bench_bytes = device->allocated_bytes();
  }
  add_parts(site, need);
  add_library(site, need);
  add_estimates(site, need);
  return need;
}

// Builds all that lies on the device but weights, part by part.
void ModelSession::add_parts(const Site& site, GpuNeed& need) const {
  Device& device = *site.backend.device;
  int64_t before = device.allocated_bytes();
  const auto taken = [&] {
    const int64_t bytes = device.allocated_bytes() - before;
    before = device.allocated_bytes();
    return bytes;
  };
  Experts experts = make_experts(site, false, [](uint64_t) {});
  need.expert_bytes = experts.shard->resident_bytes();
  if (experts.staged) need.message_bytes = static_cast<int64_t>(experts.staged->size_bytes());
  need.workspace_bytes = taken() - need.expert_bytes - need.message_bytes;
  if (site.rank > 0) {
    if (site.link == nullptr) return;
    const DeviceWorker worker({site.backend, site.link, context_.transport, experts.shard.get()},
                              worker_options());
    need.message_bytes += taken();
    need.staging_bytes = device.staging_bytes();
    return;
  }
  int64_t largest = 0;
  for (const TensorKey& key : tensor_keys(checkpoint_->config())) {
    if (is_expert(key.role)) continue;
    const int64_t bytes = kept_bytes(*checkpoint_, key, formats_);
    need.weight_bytes += bytes;
    largest = std::max(largest, bytes);
  }
  need.host_bytes += 2 * largest;  // one at a time, read and then cut up
  Coordinator c;
  if (hooks_.make_routing) c.routing = hooks_.make_routing(checkpoint_->config());
  make_cache(site, c);
  need.kv_cache_bytes = taken();
  make_path(site, experts, c);
  need.message_bytes += taken();
  make_forward(site, c);
  need.logits_bytes = static_cast<int64_t>(c.forward->logits_bytes());
  need.workspace_bytes += taken() - need.logits_bytes;
  need.staging_bytes = device.staging_bytes();
}

void ModelSession::add_library(const Site& site, GpuNeed& need) const {
  const std::vector<DenseShape> shapes = dense_shapes_of(site.rank);
  const DenseMemory dense = context_.device.backend->dense_memory(shapes);
  need.library_bytes = dense.kept_bytes;
  need.start_bytes = dense.kept_bytes + dense.probe_bytes;
}

void ModelSession::add_estimates(const Site& site, GpuNeed& need) const {
  // While experts are loaded, before anything else is pinned.
  need.staging_bytes =
      std::max(need.staging_bytes, staging_bytes_of_load(need.expert_bytes, shape_.expert_bytes));
  if (site.link == nullptr) return;
  if (context_.device.over_nccl) need.nccl_bytes = nccl_buffer_bytes(context_.size);
  const int64_t sizes = num_step_sizes(std::min<int64_t>(site.fixed.max_tokens, num_sequences()));
  const auto tiles = static_cast<uint64_t>((max_context() + kTile - 1) / kTile);
  const int64_t contexts = site.rank == 0 ? std::bit_width(std::bit_ceil(tiles)) : 1;
  need.graph_bytes = graph_bytes_estimate(std::min(sizes * contexts, int64_t{kMaxGraphs}));
}

// Rank 0 has the table logged; each rank's own need is held against its own GPU.
void ModelSession::check_gpu_plan() {
  const ChosenDevice& device = context_.device;
  need_ = need_of(context_.rank, *placement_);
  std::vector<GpuNeed> plan = {*need_};
  for (int rank = 1; context_.is_root() && rank < context_.size; ++rank) {
    plan.push_back(need_of(rank, *placement_));
  }
  if (context_.is_root()) {
    context_.log->info("GPU memory plan\n{}", gpu_memory_table(plan, device.gpu_of_rank));
  }
  check_gpu_memory(context_.rank, *need_, device.gpu, gpu_memory_);
  const bool one_node = context_.num_local_ranks == context_.size;
  if (!context_.is_root() || !one_node) return;
  check_host_memory(plan, read_system_memory().usable_bytes());
}

// Exact for weights, an upper bound for the rest. Called again when all was used; experts that came
// after the plan was made are not in it.
void ModelSession::check_taken() const {
  if (!need_ || (coordinator_ && coordinator_->ranks->has_changed())) return;
  GpuNeed need = *need_;
  if (hooks_.change_gpu_plan) hooks_.change_gpu_plan(need);
  check_gpu_taken(context_.rank, need,
                  {.expert_bytes = experts_.shard->resident_bytes(),
                   .weight_bytes = taken_weight_bytes_,
                   .allocated_bytes = backend_.device->allocated_bytes(),
                   .staging_bytes = backend_.device->staging_bytes()});
}

}  // namespace colibri
