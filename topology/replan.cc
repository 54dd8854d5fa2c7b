#include "topology/replan.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/error.h"

namespace colibri {
namespace {

ExpertLists lists_of(const Placement& placement) {
  ExpertLists lists(static_cast<size_t>(placement.num_layers()));
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    for (int rank = 0; rank < placement.num_ranks(); ++rank) {
      const auto experts = placement.experts_of(layer, rank);
      lists[static_cast<size_t>(layer)].emplace_back(experts.begin(), experts.end());
    }
  }
  return lists;
}

// Where the experts of lost ranks go, one after the other.
class Refuge {
 public:
  Refuge(const Placement& placement, std::span<const int> lost, std::span<const int64_t> capacity)
      : lists_(lists_of(placement)), is_lost_(static_cast<size_t>(placement.num_ranks())) {
    for (const int rank : lost) is_lost_.at(static_cast<size_t>(rank)) = true;
    for (size_t rank = 0; rank < is_lost_.size(); ++rank) {
      held_.push_back(is_lost_[rank] ? 0 : placement.num_slots(static_cast<int>(rank)));
      capacity_.push_back(capacity.empty() ? std::numeric_limits<int64_t>::max() : capacity[rank]);
    }
    is_rank0_used_ = held_[0] > 0;
  }

  void leave(size_t layer) {
    for (size_t rank = 0; rank < is_lost_.size(); ++rank) {
      if (is_lost_[rank]) lists_[layer][rank].clear();
    }
  }

  // False when no rank has room.
  bool take_in(size_t layer, int32_t expert) {
    const size_t nobody = is_lost_.size();
    size_t best = nobody;
    for (size_t rank = 0; rank < is_lost_.size(); ++rank) {
      if (is_lost_[rank] || held_[rank] >= capacity_[rank]) continue;
      if (best == nobody || key(layer, rank) < key(layer, best)) best = rank;
    }
    if (best == nobody) return false;
    lists_[layer][best].push_back(expert);
    ++held_[best];
    return true;
  }

  const ExpertLists& lists() const { return lists_; }
  int64_t num_survivors() const { return std::count(is_lost_.begin(), is_lost_.end(), false); }

 private:
  std::tuple<bool, size_t, int64_t, size_t> key(size_t layer, size_t rank) const {
    return {rank == 0 && !is_rank0_used_, lists_[layer][rank].size(), held_[rank], rank};
  }

  ExpertLists lists_;
  std::vector<bool> is_lost_;
  std::vector<int64_t> held_, capacity_;  // [R] slots
  bool is_rank0_used_ = false;
};

bool has_slot_left(const Placement& placement, int layer, int expert, std::span<const int> lost) {
  for (const SlotRef& slot : placement.slots_of(layer, expert)) {
    if (std::find(lost.begin(), lost.end(), slot.rank) == lost.end()) return true;
  }
  return false;
}

}  // namespace

Placement placement_without(const ModelShape& shape, const Placement& placement,
                            std::span<const int> lost, std::span<const int64_t> capacity_slots) {
  Refuge refuge(placement, lost, capacity_slots);
  int64_t num_orphans = 0, num_homeless = 0;
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    if (!placement.has_experts(layer)) continue;
    refuge.leave(static_cast<size_t>(layer));
    for (int expert = 0; expert < placement.num_experts(); ++expert) {
      if (has_slot_left(placement, layer, expert, lost)) continue;
      ++num_orphans;
      if (!refuge.take_in(static_cast<size_t>(layer), expert)) ++num_homeless;
    }
  }
  if (num_homeless > 0) {
    fail(ErrorKind::kEnvironment, "without the ranks that are lost ", num_orphans,
         " experts (all layers) need another place; the memory of the ", refuge.num_survivors(),
         " that are left has room for ", num_orphans - num_homeless,
         ": use more ranks, or smaller weights");
  }
  return Placement(shape, placement.num_ranks(), refuge.lists());
}

std::vector<int64_t> slots_to_load(const Placement& now, const Placement& next) {
  std::vector<int64_t> count(static_cast<size_t>(next.num_ranks()));
  for (int layer = 0; layer < next.num_layers(); ++layer) {
    for (int rank = 0; rank < next.num_ranks(); ++rank) {
      const auto held = now.experts_of(layer, rank);
      for (const int32_t expert : next.experts_of(layer, rank)) {
        const bool is_new = std::find(held.begin(), held.end(), expert) == held.end();
        count[static_cast<size_t>(rank)] += is_new ? 1 : 0;
      }
    }
  }
  return count;
}

void check_survives_one(const ModelShape& shape, const Placement& placement,
                        std::span<const int64_t> capacity_slots) {
  for (int rank = 1; rank < placement.num_ranks(); ++rank) {
    try {
      placement_without(shape, placement, {&rank, 1}, capacity_slots);
    } catch (const Error& error) {
      fail(error.kind(), "--survive 1: the loss of rank ", rank,
           " could not be made good: ", error.what());
    }
  }
}

}  // namespace colibri
