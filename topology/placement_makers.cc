// The placements that follow a rule: how many experts each rank holds in each layer (the same for
// all rules), then which.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/mix.h"
#include "topology/placement.h"

namespace colibri {
namespace {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the
// standard library's distributions differ between implementations, this does not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // In [0, bound). The bias of the remainder is below 2^-40 for the small bounds used here.
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }

 private:
  uint64_t next() {
    const uint64_t drawn = mix(state_);
    state_ += 0x9e3779b97f4a7c15u;  // SplitMix64's step
    return drawn;
  }

  uint64_t state_;
};

using Counts = std::vector<std::vector<int>>;  // [MoE layers][R]

void check_options(const ModelShape& shape, const PlacementOptions& options) {
  if (options.num_ranks < 1) {
    fail(ErrorKind::kInput, "placement: ", options.num_ranks, " ranks, want 1 at least");
  }
  if (options.coordinator_experts < 0 || options.coordinator_experts > shape.num_experts) {
    fail(ErrorKind::kInput, "--coordinator-experts is ", options.coordinator_experts, ", want [0, ",
         shape.num_experts, "]");
  }
  check(options.capacity_slots.empty() ||
            options.capacity_slots.size() == static_cast<size_t>(options.num_ranks),
        "capacities of ", options.capacity_slots.size(), " ranks, want ", options.num_ranks);
}

void check_total_room(const ModelShape& shape, const PlacementOptions& options) {
  const int64_t need = int64_t{shape.num_moe_layers()} * shape.num_experts;
  int64_t room = 0;
  for (const int64_t slots : options.capacity_slots) room += std::clamp<int64_t>(slots, 0, need);
  if (!options.capacity_slots.empty() && room < need) {
    fail(ErrorKind::kEnvironment, "the memory of ", options.num_ranks, " ranks holds ", room,
         " experts (all layers), the model has ", need, " of ", shape.expert_bytes,
         " bytes each; use more ranks, a smaller --max-context or --max-batch, or smaller weights");
  }
}

// How many of E experts each rank holds, given its room.
std::vector<int> share_out(int num_experts, int coordinator_experts, const std::vector<int>& room) {
  std::vector<int> count(room.size(), 0);
  count[0] = std::min(room.size() == 1 ? num_experts : coordinator_experts, room[0]);
  int left = num_experts - count[0];
  bool gave = true;
  while (left > 0 && gave) {
    gave = false;
    for (size_t rank = 1; rank < room.size() && left > 0; ++rank) {
      if (count[rank] == room[rank]) continue;
      ++count[rank];
      --left;
      gave = true;
    }
  }
  count[0] += left;  // fits: the total was checked
  return count;
}

Counts count_experts(const ModelShape& shape, const PlacementOptions& options) {
  check_options(shape, options);
  check_total_room(shape, options);
  Counts counts = layer_rooms(shape, options.num_ranks, options.capacity_slots);
  for (auto& layer : counts) {
    layer = share_out(shape.num_experts, options.coordinator_experts, layer);
  }
  return counts;
}

// Lists of one layer: `order` cut into parts of `count`, each ascending.
std::vector<std::vector<int32_t>> cut(const std::vector<int32_t>& order,
                                      const std::vector<int>& count) {
  std::vector<std::vector<int32_t>> lists;
  auto at = order.begin();
  for (const int n : count) {
    lists.emplace_back(at, at + n);
    std::sort(lists.back().begin(), lists.back().end());
    at += n;
  }
  return lists;
}

std::vector<std::vector<int32_t>> deal(int num_experts, const std::vector<int>& count) {
  std::vector<std::vector<int32_t>> lists(count.size());
  size_t rank = 0;
  for (int32_t expert = 0; expert < num_experts; ++expert) {
    while (static_cast<int>(lists[rank].size()) == count[rank]) rank = (rank + 1) % count.size();
    lists[rank].push_back(expert);
    rank = (rank + 1) % count.size();
  }
  return lists;
}

// Adds one slot for an expert on a rank that holds others but not it and has room.
void add_replica(Random& random, const std::vector<int>& room, int num_experts,
                 std::vector<std::vector<int32_t>>& lists) {
  std::vector<std::pair<size_t, int32_t>> choices;
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    if (lists[rank].empty() || static_cast<int>(lists[rank].size()) >= room[rank]) continue;
    for (int32_t expert = 0; expert < num_experts; ++expert) {
      if (!std::binary_search(lists[rank].begin(), lists[rank].end(), expert)) {
        choices.emplace_back(rank, expert);
      }
    }
  }
  if (choices.empty()) {
    fail(ErrorKind::kInput,
         "placement: no rank has room for one more replica; want fewer replicas");
  }
  const auto [rank, expert] = choices[random.below(choices.size())];
  auto& list = lists[rank];
  list.insert(std::lower_bound(list.begin(), list.end(), expert), expert);
}

// Builds a placement out of lists_of(i), the lists of the i-th MoE layer.
template <class ListsOf>
Placement assemble(const ModelShape& shape, int num_ranks, const ListsOf& lists_of) {
  ExpertLists lists;
  size_t moe_idx = 0;
  for (const bool is_moe : shape.layer_is_moe) {
    lists.push_back(is_moe ? lists_of(moe_idx++)
                           : std::vector<std::vector<int32_t>>(static_cast<size_t>(num_ranks)));
  }
  return Placement(shape, num_ranks, lists);
}

std::vector<int32_t> ascending(int num_experts) {
  std::vector<int32_t> order(static_cast<size_t>(num_experts));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

// A rank's slots are spread evenly; the remainder goes to consecutive layers, each rank beginning
// where the one before ended.
std::vector<std::vector<int>> layer_rooms(const ModelShape& shape, int num_ranks,
                                          std::span<const int64_t> capacity_slots) {
  const auto num_layers = static_cast<size_t>(shape.num_moe_layers());
  Counts room(num_layers, std::vector<int>(static_cast<size_t>(num_ranks), shape.num_experts));
  if (capacity_slots.empty() || num_layers == 0) return room;
  size_t next = 0;
  for (size_t rank = 0; rank < static_cast<size_t>(num_ranks); ++rank) {
    const int64_t most = int64_t{shape.num_experts} * static_cast<int64_t>(num_layers);
    const auto slots = static_cast<size_t>(std::clamp<int64_t>(capacity_slots[rank], 0, most));
    for (size_t i = 0; i < num_layers; ++i) {
      room[i][rank] = static_cast<int>(slots / num_layers);
    }
    for (size_t i = 0; i < slots % num_layers; ++i) ++room[next++ % num_layers][rank];
  }
  return room;
}

Placement contiguous_placement(const ModelShape& shape, const PlacementOptions& options) {
  const Counts counts = count_experts(shape, options);
  const std::vector<int32_t> order = ascending(shape.num_experts);
  return assemble(shape, options.num_ranks, [&](size_t i) { return cut(order, counts[i]); });
}

Placement round_robin_placement(const ModelShape& shape, const PlacementOptions& options) {
  const Counts counts = count_experts(shape, options);
  return assemble(shape, options.num_ranks,
                  [&](size_t i) { return deal(shape.num_experts, counts[i]); });
}

Placement random_placement(const ModelShape& shape, const PlacementOptions& options, uint64_t seed,
                           int num_replicas) {
  const Counts counts = count_experts(shape, options);
  const Counts room = layer_rooms(shape, options.num_ranks, options.capacity_slots);
  Random random(seed);
  return assemble(shape, options.num_ranks, [&](size_t i) {
    std::vector<int32_t> order = ascending(shape.num_experts);
    for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[random.below(n)]);
    auto lists = cut(order, counts[i]);
    for (int k = 0; k < num_replicas; ++k) {
      add_replica(random, room[i], shape.num_experts, lists);
    }
    return lists;
  });
}

}  // namespace colibri
