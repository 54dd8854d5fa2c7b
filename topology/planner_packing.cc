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
      : near_first_(near_floor > 0 && costs.has_links()),
        floor_us_(near_first_ ? std::max(costs.hidden_us, near_floor * demand.bound.expert_us) : 0),
        room_(demand.room) {
    // Rows a slot that is picked, as on ranks of equal load.
    double usable = 0;
    for (const int room : demand.room) usable += room > 0 ? 1 : 0;
    RankSums even;
    even.share = demand.top_k / std::max(1.0, usable);
    even.log_none = -even.share;  // of many small shares
    const double rows = demand.rule.chance(even) / std::max(1e-12, even.share);
    for (size_t rank = 0; rank < costs.num_ranks(); ++rank) {
      const Kind kind = {costs.touched_us[rank], costs.row_us[rank] * costs.num_tokens,
                         near_first_ ? price(costs, rank, rows) : 0};
      const auto same = std::find(kinds_.begin(), kinds_.end(), kind);
      kind_of_.push_back(static_cast<size_t>(same - kinds_.begin()));
      if (same == kinds_.end()) {
        kinds_.push_back(kind);
        ranks_.emplace_back();
      }
      if (room_[rank] > 0) insert(ranks_[kind_of_[rank]], {costs.fixed_us[rank], rank});
    }
  }

  void put(size_t rank, const SlotFigures& slot) {
    std::vector<Rank>& ranks = ranks_[kind_of_[rank]];
    const auto at = std::find_if(ranks.begin(), ranks.end(),
                                 [rank](const Rank& other) { return other.rank == rank; });
    const double us = at->us + kinds_[kind_of_[rank]].us(slot);
    ranks.erase(at);
    if (--room_[rank] > 0) insert(ranks, {us, rank});
  }

  // The rank, of those that have room and not `is_on`, with least cost of all ranks' time, then of
  // its own; as many as there are ranks when there is none.
  size_t cheapest(const SlotFigures& slot, const uint8_t* is_on) const {
    Rank best{0, room_.size()};
    double least = 0;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      // Of ranks of one kind the one with least to do.
      const auto first = std::find_if(ranks_[kind].begin(), ranks_[kind].end(),
                                      [is_on](const Rank& rank) { return is_on[rank.rank] == 0; });
      if (first == ranks_[kind].end()) continue;
      const Rank own{first->us + kinds_[kind].us(slot), first->rank};
      const double all = std::max(floor_us_, own.us) + kinds_[kind].price * slot.load;
      const bool is_first = best.rank == room_.size();
      if (!is_first && (all > least || (all == least && !(own < best)))) continue;
      best = own;
      least = all;
    }
    return best.rank;
  }

 private:
  // What ranks may have in common: what a slot costs there.
  struct Kind {
    double touched_us = 0, load_us = 0, price = 0;
    double us(const SlotFigures& slot) const {
      return touched_us * slot.touched + load_us * slot.load;
    }
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Rank {
    double us = 0;  // of its slots so far
    size_t rank = 0;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };

  static void insert(std::vector<Rank>& ranks, const Rank& rank) {
    ranks.insert(std::upper_bound(ranks.begin(), ranks.end(), rank), rank);
  }
  static double price(const PlannerCosts& costs, size_t rank, double rows) {
    double us = 0;
    for (size_t l = 0; l < costs.num_out; ++l) us += costs.out_us[rank * costs.num_out + l] * rows;
    for (size_t l = 0; l < costs.num_back; ++l) {
      us += costs.back_us[rank * costs.num_back + l] * (costs.adds_results ? rows : 1);
    }
    return us * costs.num_tokens * costs.link_weight;
  }

  bool near_first_;
  double floor_us_;
  std::vector<int> room_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<Rank>> ranks_;  // of each kind those with room, ascending
  std::vector<size_t> kind_of_;           // [R]
};

// Experts of all slots, the busiest slots first; between equals first copies before further ones.
std::vector<size_t> busiest_first(const LayerDemand& demand, const std::vector<SlotFigures>& slot,
                                  const std::vector<int>& copies) {
  const size_t num_experts = copies.size();
  // A slot's number is its expert's, num_experts more for further copies.
  const auto is_before = [&](size_t a, size_t b) {
    const double of_a = slot[a % num_experts].load, of_b = slot[b % num_experts].load;
    return of_a != of_b ? of_a > of_b : a < b;
  };
  // Experts with one copy are in order already.
  std::vector<size_t> alone, split, order;
  for (const size_t e : demand.by_share) {
    (copies[e] == 1 ? alone : split).push_back(e);
    split.insert(split.end(), static_cast<size_t>(copies[e]) - 1, e + num_experts);
  }
  std::sort(split.begin(), split.end(), is_before);
  order.reserve(alone.size() + split.size());
  std::merge(alone.begin(), alone.end(), split.begin(), split.end(), std::back_inserter(order),
             is_before);
  for (size_t& number : order) number %= num_experts;
  return order;
}

}  // namespace

RankLists packed(const PlannerCosts& costs, const LayerDemand& demand,
                 const std::vector<int>& copies, double near_floor, const RankLists& begun) {
  const size_t num_experts = demand.num_experts(), num_ranks = costs.num_ranks();
  RankLists lists = begun;
  lists.resize(num_ranks);
  Packing packing(costs, demand, near_floor);
  std::vector<uint8_t> is_on(num_experts * num_ranks, 0);
  std::vector<int> placed(num_experts, 0);
  std::vector<SlotFigures> slot = demand.alone;
  for (size_t e = 0; e < num_experts; ++e) {
    if (copies[e] > 1) slot[e] = demand.slot(e, static_cast<size_t>(copies[e]));
  }
  const auto put = [&](size_t e, size_t rank) {
    is_on[e * num_ranks + rank] = 1;
    ++placed[e];
    packing.put(rank, slot[e]);
  };
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    for (const int32_t e : lists[rank]) put(static_cast<size_t>(e), rank);
  }
  // Further copies must leave room for the first of every expert.
  int room = std::accumulate(demand.room.begin(), demand.room.end(), 0);
  int firsts = 0;
  for (size_t rank = 0; rank < num_ranks; ++rank) room -= static_cast<int>(lists[rank].size());
  for (size_t e = 0; e < num_experts; ++e) firsts += placed[e] == 0 ? 1 : 0;
  for (const size_t e : busiest_first(demand, slot, copies)) {
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
