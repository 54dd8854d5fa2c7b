// How many bytes each rank takes, by name, known before the first byte is read: a pure function of
// the model's shape, the placement and a few numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/model_shape.h"
#include "topology/placement.h"

namespace colibri {

struct MemoryPlanOptions {
  int64_t max_context = 0;  // positions of one sequence
  int64_t max_batch = 1;    // sequences at a time
  int64_t max_tokens = 1;   // T, the largest step: prompt chunk and decode tokens together
  // Arrays of attention and of dense layers, which the shape does not tell. From the coordinator.
  int64_t coordinator_workspace_bytes = 0;
  int64_t process_bytes = 0;  // program, libraries and thread stacks of one rank
  // [R] node of each rank, an index into the list of NodeMemory; empty: all on node 0.
  std::vector<int> node_of_rank = {};
};

// Memory that colibri may use on one node, shared by the ranks there.
struct NodeMemory {
  std::string name;  // host name, for messages
  int64_t available_bytes = 0;
};

// One rank's need. Upper bounds: the KV cache and the messages take memory only as they are used.
struct RankMemory {
  int node = 0;
  int64_t expert_bytes = 0;     // its slots of all layers
  int64_t weight_bytes = 0;     // the coordinator's weights: all but the routed experts
  int64_t kv_cache_bytes = 0;   // max_context rounded up to 64 positions, times max_batch
  int64_t workspace_bytes = 0;  // activations of one step
  int64_t message_bytes = 0;    // rows and results of one layer
  int64_t process_bytes = 0;

  int64_t total_bytes() const {
    return expert_bytes + weight_bytes + kv_cache_bytes + workspace_bytes + message_bytes +
           process_bytes;
  }
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

// [R], rank 0 the coordinator. Errors: kInput when a size does not fit 64 bits or an option is
// negative (named).
//   coordinator   workspace 4 (3 T H + T E + max_batch V) + coordinator_workspace_bytes
//                 messages  4 H (T min(K, other ranks with experts) + T K) when there are such
//                 ranks
//   with experts  workspace 8 I P, and 4 H P for results of own slots on the coordinator
//                 messages  4 H (T + P) on the others, P = T min(K, its most slots in a layer)
std::vector<RankMemory> plan_memory(const ModelShape& shape, const Placement& placement,
                                    const MemoryPlanOptions& options);

// [R] slots (all layers together) that fit on each rank beside everything else, for
// PlacementOptions. Free memory of a node is shared equally by its ranks but rank 0; rank 0 takes
// `coordinator_experts` a layer first, and the node's memory when no other rank is there.
std::vector<int64_t> slot_capacities(const ModelShape& shape, int coordinator_experts,
                                     const MemoryPlanOptions& options,
                                     std::span<const NodeMemory> nodes, int num_ranks);

// Fails with kEnvironment when the ranks of a node need more than it has: names the node, need and
// have, the rank that needs most and its largest item, and what to do.
void check_memory(std::span<const RankMemory> plan, std::span<const NodeMemory> nodes);

// A table for people, one line a rank and one a node; 1 GB = 1e9 bytes.
std::string memory_table(std::span<const RankMemory> plan, std::span<const NodeMemory> nodes);

}  // namespace colibri
