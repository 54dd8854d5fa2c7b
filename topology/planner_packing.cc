// A first placement: slots one after the other, each where the time grows least.
#include <algorithm>
#include <numeric>

#include "topology/planner_search.h"

namespace colibri {
namespace {

// Where the next slot costs least: ranks under way to a placement.
class Packing {
 public:
  Packing(const PlannerCosts& costs, const LayerDemand& demand, double near_floor)
      : costs_(costs),
        near_first_(near_floor > 0 && costs.has_links()),
        floor_us_(near_first_ ? std::max(costs.hidden_us, near_floor * demand.bound.expert_us) : 0),
        us_(costs.fixed_us),
        room_(demand.room),
        price_(costs.num_ranks()) {
    // Rows a slot that is picked, as on ranks of equal load.
    double usable = 0;
    for (const int room : demand.room) usable += room > 0 ? 1 : 0;
    RankSums even;
    even.share = demand.top_k / std::max(1.0, usable);
    even.log_none = -even.share;  // of many small shares
    const double rows = demand.row_rule().chance(even) / std::max(1e-12, even.share);
    for (size_t rank = 0; rank < us_.size() && near_first_; ++rank) {
      for (size_t l = 0; l < costs.num_out; ++l) {
        price_[rank] += costs.out_us[rank * costs.num_out + l] * rows;
      }
      for (size_t l = 0; l < costs.num_back; ++l) {
        price_[rank] += costs.back_us[rank * costs.num_back + l] * (costs.adds_results ? rows : 1);
      }
      price_[rank] *= costs.num_tokens * costs.link_weight;
    }
  }

  void put(size_t rank, const SlotFigures& slot) {
    us_[rank] += own_us(rank, slot);
    --room_[rank];
  }

  // The rank, of those that have room and not `is_on`, with least cost of all ranks' time, then of
  // its own; as many as there are ranks when there is none.
  size_t cheapest(const SlotFigures& slot, const uint8_t* is_on) const {
    size_t best = us_.size();
    double least = 0, least_own = 0;
    for (size_t rank = 0; rank < us_.size(); ++rank) {
      if (room_[rank] <= 0 || is_on[rank] != 0) continue;
      const double own = us_[rank] + own_us(rank, slot);
      const double all = std::max(floor_us_, own) + price_[rank] * slot.load;
      if (best != us_.size() && (all > least || (all == least && own >= least_own))) continue;
      best = rank;
      least = all;
      least_own = own;
    }
    return best;
  }

 private:
  double own_us(size_t rank, const SlotFigures& slot) const {
    return costs_.touched_us[rank] * slot.touched +
           costs_.row_us[rank] * costs_.num_tokens * slot.load;
  }

  const PlannerCosts& costs_;
  bool near_first_;
  double floor_us_;
  std::vector<double> us_;
  std::vector<int> room_;
  std::vector<double> price_;
};

}  // namespace

RankLists packed(const PlannerCosts& costs, const LayerDemand& demand,
                 const std::vector<int>& copies, double near_floor, const RankLists& begun) {
  const size_t num_experts = demand.num_experts(), num_ranks = costs.num_ranks();
  RankLists lists = begun;
  lists.resize(num_ranks);
  Packing packing(costs, demand, near_floor);
  std::vector<uint8_t> is_on(num_experts * num_ranks, 0);
  std::vector<int> placed(num_experts, 0);
  std::vector<SlotFigures> slot(num_experts);
  for (size_t e = 0; e < num_experts; ++e) {
    slot[e] = demand.slot(e, static_cast<size_t>(copies[e]));
  }
  const auto put = [&](size_t e, size_t rank) {
    is_on[e * num_ranks + rank] = 1;
    ++placed[e];
    packing.put(rank, slot[e]);
  };
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    for (const int32_t e : lists[rank]) put(static_cast<size_t>(e), rank);
  }
  // Slots, the busiest first; between equals first copies before further ones.
  std::vector<size_t> order(num_experts);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t e = 0; e < num_experts; ++e) {
    order.insert(order.end(), static_cast<size_t>(copies[e]) - 1, e);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return slot[a].load > slot[b].load; });
  // Further copies must leave room for the first of every expert.
  int room = std::accumulate(demand.room.begin(), demand.room.end(), 0);
  int firsts = 0;
  for (size_t rank = 0; rank < num_ranks; ++rank) room -= static_cast<int>(lists[rank].size());
  for (size_t e = 0; e < num_experts; ++e) firsts += placed[e] == 0 ? 1 : 0;
  for (const size_t e : order) {
    if (placed[e] >= copies[e] || (placed[e] > 0 && room <= firsts)) continue;
    const size_t best = packing.cheapest(slot[e], &is_on[e * num_ranks]);
    if (best == num_ranks) continue;
    if (placed[e] == 0) --firsts;
    --room;
    lists[best].push_back(static_cast<int32_t>(e));
    put(e, best);
  }
  return lists;
}

}  // namespace colibri
