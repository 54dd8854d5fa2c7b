#include "topology/memory_plan.h"

#include <algorithm>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int64_t kPagePositions = 64;  // kernels/op_types.h: a page holds one tile

// Sizes from a command line multiply past 64 bits easily; then no machine has that memory.
int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) {
      fail(ErrorKind::kInput,
           "memory plan: a size passes 2^63 bytes; want a smaller --max-context, --max-batch or "
           "--chunk");
    }
  }
  return result;
}

int64_t sum(std::initializer_list<int64_t> parts) {
  int64_t result = 0;
  for (const int64_t part : parts) {
    if (__builtin_add_overflow(result, part, &result)) {
      fail(ErrorKind::kInput, "memory plan: a sum passes 2^63 bytes; want smaller limits");
    }
  }
  return result;
}

void check_options(const MemoryPlanOptions& options, int num_ranks) {
  const auto not_negative = [](const char* name, int64_t value) {
    if (value < 0)
      fail(ErrorKind::kInput, "memory plan: ", name, " is ", value, ", want 0 or more");
  };
  not_negative("max_context", options.max_context);
  not_negative("max_batch", options.max_batch);
  not_negative("max_tokens", options.max_tokens);
  not_negative("coordinator_workspace_bytes", options.coordinator_workspace_bytes);
  not_negative("process_bytes", options.process_bytes);
  check(
      options.node_of_rank.empty() || options.node_of_rank.size() == static_cast<size_t>(num_ranks),
      "nodes of ", options.node_of_rank.size(), " ranks, want ", num_ranks);
}

int node_of(const MemoryPlanOptions& options, int rank) {
  return options.node_of_rank.empty() ? 0 : options.node_of_rank[static_cast<size_t>(rank)];
}

int64_t kv_bytes(const ModelShape& shape, const MemoryPlanOptions& options) {
  const int64_t pages =
      options.max_context / kPagePositions + (options.max_context % kPagePositions != 0 ? 1 : 0);
  return product({pages, kPagePositions, options.max_batch, shape.kv_bytes_per_token});
}

// Adds what a rank needs besides its experts. `most_slots`: of this rank in any layer.
void add_fixed_needs(const ModelShape& shape, const MemoryPlanOptions& options, bool is_coordinator,
                     int64_t most_slots, RankMemory& memory) {
  const int64_t tokens = options.max_tokens;
  const int64_t pairs = product({tokens, std::min<int64_t>(shape.top_k, most_slots)});
  memory.process_bytes = options.process_bytes;
  memory.workspace_bytes = product({8, shape.expert_width, pairs});
  if (!is_coordinator) {
    if (most_slots > 0)
      memory.message_bytes = product({4, shape.hidden_size, sum({tokens, pairs})});
    return;
  }
  memory.weight_bytes = shape.coordinator_weight_bytes;
  memory.kv_cache_bytes = kv_bytes(shape, options);
  memory.workspace_bytes =
      sum({memory.workspace_bytes, product({4, shape.hidden_size, pairs}),
           product({4, tokens, sum({product({3, shape.hidden_size}), shape.num_experts})}),
           product({4, options.max_batch, shape.vocab_size}), options.coordinator_workspace_bytes});
}

int64_t coordinator_message_bytes(const ModelShape& shape, const MemoryPlanOptions& options,
                                  int64_t num_remote_holders) {
  if (num_remote_holders == 0) return 0;
  const int64_t copies = std::min<int64_t>(shape.top_k, num_remote_holders) + shape.top_k;
  return product({4, shape.hidden_size, options.max_tokens, copies});
}

int64_t most_slots_in_a_layer(const Placement& placement, int rank) {
  size_t most = 0;
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    most = std::max(most, placement.experts_of(layer, rank).size());
  }
  return static_cast<int64_t>(most);
}

}  // namespace

std::vector<RankMemory> plan_memory(const ModelShape& shape, const Placement& placement,
                                    const MemoryPlanOptions& options) {
  const int num_ranks = placement.num_ranks();
  check_options(options, num_ranks);
  std::vector<RankMemory> plan(static_cast<size_t>(num_ranks));
  int64_t num_remote_holders = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    RankMemory& memory = plan[static_cast<size_t>(rank)];
    const int64_t most_slots = most_slots_in_a_layer(placement, rank);
    if (rank > 0 && most_slots > 0) ++num_remote_holders;
    memory.node = node_of(options, rank);
    memory.expert_bytes = product({placement.num_slots(rank), shape.expert_bytes});
    add_fixed_needs(shape, options, rank == 0, most_slots, memory);
  }
  plan[0].message_bytes = coordinator_message_bytes(shape, options, num_remote_holders);
  for (const RankMemory& memory : plan) {
    sum({memory.expert_bytes, memory.weight_bytes, memory.kv_cache_bytes, memory.workspace_bytes,
         memory.message_bytes, memory.process_bytes});
  }
  return plan;
}

namespace {

// Slots that `free` bytes hold, shared by `ranks`: the first ranks take the remainder.
void share_slots(int64_t free, int64_t expert_bytes, const std::vector<int>& ranks,
                 std::vector<int64_t>& capacity) {
  if (ranks.empty() || expert_bytes <= 0) return;
  const int64_t slots = std::max<int64_t>(free, 0) / expert_bytes;
  const auto count = static_cast<int64_t>(ranks.size());
  for (int64_t i = 0; i < count; ++i) {
    capacity[static_cast<size_t>(ranks[static_cast<size_t>(i)])] =
        slots / count + (i < slots % count ? 1 : 0);
  }
}

// What a rank needs besides experts, when it might hold up to all of them.
int64_t fixed_bytes(const ModelShape& shape, const MemoryPlanOptions& options, int rank,
                    int num_ranks, int64_t most_slots) {
  RankMemory memory;
  add_fixed_needs(shape, options, rank == 0, most_slots, memory);
  if (rank == 0) memory.message_bytes = coordinator_message_bytes(shape, options, num_ranks - 1);
  return sum({memory.weight_bytes, memory.kv_cache_bytes, memory.workspace_bytes,
              memory.message_bytes, memory.process_bytes});
}

}  // namespace

std::vector<int64_t> slot_capacities(const ModelShape& shape, int coordinator_experts,
                                     const MemoryPlanOptions& options,
                                     std::span<const NodeMemory> nodes, int num_ranks) {
  check_options(options, num_ranks);
  std::vector<int64_t> capacity(static_cast<size_t>(num_ranks), 0);
  const int64_t own_slots = product({coordinator_experts, shape.num_moe_layers()});
  for (size_t node = 0; node < nodes.size(); ++node) {
    int64_t free = nodes[node].available_bytes;
    std::vector<int> workers;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (node_of(options, rank) != static_cast<int>(node)) continue;
      if (rank > 0) workers.push_back(rank);
      free -= fixed_bytes(shape, options, rank, num_ranks, shape.num_experts);
    }
    const bool has_coordinator = node_of(options, 0) == static_cast<int>(node);
    if (has_coordinator && workers.empty()) workers.push_back(0);
    if (has_coordinator && workers.front() != 0) {
      capacity[0] = own_slots;
      free -= product({own_slots, shape.expert_bytes});
    }
    share_slots(free, shape.expert_bytes, workers, capacity);
  }
  return capacity;
}

}  // namespace colibri
