#include "topology/planner_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace colibri {
namespace {

// A change counts when it gains this part of the objective.
constexpr double kLeastGain = 1e-9;
// Near enough to the bound to stop looking.
constexpr double kGoodEnough = 1e-4;

enum class ChangeKind : uint8_t { kNone, kMove, kSwap, kAdd, kDrop };

struct Change {
  ChangeKind kind = ChangeKind::kNone;
  size_t a = 0, x = 0, b = 0, y = 0;  // expert a of rank x, expert b of rank y
  double objective = std::numeric_limits<double>::infinity();
};

class Search {
 public:
  Search(PlannerState& state, const PlannerCosts& costs, const LayerDemand& demand,
         const Homes& homes, int64_t effort)
      : state_(state), costs_(costs), demand_(demand), homes_(homes), effort_(effort) {
    if (homes.lists == nullptr) return;
    is_home_.assign(demand.num_experts() * costs.num_ranks(), 0);
    for (size_t rank = 0; rank < costs.num_ranks(); ++rank) {
      for (const int32_t e : (*homes.lists)[rank]) is_home_[at(static_cast<size_t>(e), rank)] = 1;
    }
    moves_ = moves_from(*homes.lists, state.lists());
  }

  void run() {
    state_.prepare();
    while (effort_ > 0) {
      if (apply(relief())) continue;
      if (costs_.has_links() && relieve_links()) continue;
      if (apply(best_drop())) continue;
      break;
    }
    spread_copies();
  }

 private:
  size_t at(size_t expert, size_t rank) const { return expert * costs_.num_ranks() + rank; }
  // Slots to read that a slot of `expert` on `rank` is.
  int away(size_t expert, size_t rank) const {
    return is_home_.empty() || is_home_[at(expert, rank)] != 0 ? 0 : 1;
  }
  int extra_moves(const Change& c) const {
    switch (c.kind) {
      case ChangeKind::kNone:
        return 0;
      case ChangeKind::kMove:
        return away(c.a, c.y) - away(c.a, c.x);
      case ChangeKind::kSwap:
        return away(c.a, c.y) - away(c.a, c.x) + away(c.b, c.x) - away(c.b, c.y);
      case ChangeKind::kAdd:
        return away(c.a, c.y);
      case ChangeKind::kDrop:
        return -away(c.a, c.x);
    }
    return 0;
  }

  // Keeps `c` in `best` when it is allowed and better.
  void offer(Change c, Change& best) {
    --effort_;
    const int moves = extra_moves(c);
    if (moves_ + moves > homes_.most_moves && moves > 0) return;
    c.objective += homes_.move_us * moves;
    if (c.objective < best.objective) best = c;
  }

  bool can_move(size_t expert, size_t to) const {
    return !state_.is_on(expert, to) && state_.room_left(to) > 0;
  }
  bool can_swap(size_t a, size_t x, size_t b, size_t y) const {
    return !state_.is_on(a, y) && !state_.is_on(b, x);
  }

  // What takes most from the slowest rank.
  Change relief() {
    Change best;
    const size_t x = state_.slowest();
    const double enough = std::max(kGoodEnough, demand_.noise);
    const double least = std::max(costs_.hidden_us, demand_.bound.expert_us);
    if (state_.expert_us(x) <= least * (1 + enough)) return best;
    const bool may_add = state_.num_slots() < demand_.most_slots;
    for (const int32_t slot : state_.lists()[x]) {
      const auto a = static_cast<size_t>(slot);
      const SlotFigures split = may_add ? state_.resized(a, true) : SlotFigures{};
      for (size_t y = 0; y < costs_.num_ranks(); ++y) {
        if (y == x || demand_.room[y] == 0 || effort_ <= 0) continue;
        if (can_move(a, y)) {
          offer({ChangeKind::kMove, a, x, 0, y, state_.tried_move(a, x, y)}, best);
          if (may_add) {
            offer({ChangeKind::kAdd, a, x, 0, y, state_.tried_copy(a, y, true, split)}, best);
          }
        }
        offer_swaps(a, x, y, best);
      }
    }
    return best;
  }

  void offer_swaps(size_t a, size_t x, size_t y, Change& best) {
    // Equal prices a slot: only a lighter expert relieves x.
    const double load = state_.slot_load(a);
    for (const int32_t slot : state_.lists()[y]) {
      const auto b = static_cast<size_t>(slot);
      if (state_.slot_load(b) >= load || !can_swap(a, x, b, y)) continue;
      offer({ChangeKind::kSwap, a, x, b, y, state_.tried_swap(a, x, b, y)}, best);
    }
  }

  // One pass over all pairs of ranks between which links differ; takes what helps as it is met.
  bool relieve_links() {
    bool has_helped = false;
    for (const auto& [x, y] : costs_.far_and_near) {
      if (demand_.room[x] == 0 || demand_.room[y] == 0) continue;
      for (size_t i = 0; i < state_.lists()[x].size() && effort_ > 0; ++i) {
        const auto a = static_cast<size_t>(state_.lists()[x][i]);
        Change best;
        if (can_move(a, y)) {
          offer({ChangeKind::kMove, a, x, 0, y, state_.tried_move(a, x, y)}, best);
        }
        offer_swaps(a, x, y, best);
        if (!apply(best)) continue;
        has_helped = true;
        --i;  // another expert stands there now
      }
    }
    return has_helped;
  }

  // The copy that is missed least.
  Change best_drop() {
    Change best;
    for (size_t a = 0; a < demand_.num_experts() && effort_ > 0; ++a) {
      if (state_.holders(a).size() < 2) continue;
      const SlotFigures merged = state_.resized(a, false);
      for (const size_t x : state_.holders(a)) {
        offer({ChangeKind::kDrop, a, x, 0, 0, state_.tried_copy(a, x, false, merged)}, best);
      }
    }
    return best;
  }

  void make(const Change& c) {
    moves_ += extra_moves(c);
    switch (c.kind) {
      case ChangeKind::kNone:
        return;
      case ChangeKind::kMove:
        return state_.move(c.a, c.x, c.y);
      case ChangeKind::kSwap:
        return state_.swap(c.a, c.x, c.b, c.y);
      case ChangeKind::kAdd:
        return state_.add_copy(c.a, c.y);
      case ChangeKind::kDrop:
        return state_.drop_copy(c.a, c.x);
    }
  }
  static Change inverse(const Change& c) {
    Change back = c;
    switch (c.kind) {
      case ChangeKind::kNone:
        break;
      case ChangeKind::kMove:
        std::swap(back.x, back.y);
        break;
      case ChangeKind::kSwap:
        std::swap(back.a, back.b);
        break;
      case ChangeKind::kAdd:
        back.kind = ChangeKind::kDrop;
        back.x = c.y;
        break;
      case ChangeKind::kDrop:
        back.kind = ChangeKind::kAdd;
        back.y = c.x;
        break;
    }
    return back;
  }

  // Makes a change when it holds what it promised: rows were only followed along their slope.
  bool apply(const Change& change) {
    const double before = state_.objective(), limit = before * (1 - kLeastGain);
    if (change.kind == ChangeKind::kNone || !(change.objective < limit)) return false;
    const int moves = extra_moves(change);
    make(change);
    if (state_.objective() + homes_.move_us * moves < limit) return true;
    make(inverse(change));
    return false;
  }

  // Copies that share a domain change places with what costs the same elsewhere.
  void spread_copies() {
    if (costs_.domain.empty()) return;
    for (size_t a = 0; a < demand_.num_experts(); ++a) {
      if (state_.collisions(a) > 0 && effort_ > 0) spread(a);
    }
  }
  void spread(size_t a) {
    const double limit = state_.objective() * (1 + kLeastGain);
    const std::vector<size_t> holders(state_.holders(a).begin(), state_.holders(a).end());
    for (const size_t x : holders) {
      for (size_t y = 0; y < costs_.num_ranks(); ++y) {
        if (costs_.domain[x] == costs_.domain[y] || state_.is_on(a, y)) continue;
        const std::vector<int32_t> others = state_.lists()[y];
        for (const int32_t slot : others) {
          const auto b = static_cast<size_t>(slot);
          const Change c{ChangeKind::kSwap, a, x, b, y, 0};
          if (effort_-- <= 0 || !can_swap(a, x, b, y)) continue;
          if (extra_moves(c) > 0 || state_.tried_swap(a, x, b, y) > limit) continue;
          const int before = state_.collisions(a) + state_.collisions(b);
          make(c);
          const int after = state_.collisions(a) + state_.collisions(b);
          if (after < before && state_.objective() <= limit) return;
          make(inverse(c));
        }
      }
    }
  }

  PlannerState& state_;
  const PlannerCosts& costs_;
  const LayerDemand& demand_;
  const Homes& homes_;
  int64_t effort_;
  std::vector<uint8_t> is_home_;  // [E, R]
  int64_t moves_ = 0;
};

}  // namespace

int64_t moves_from(const RankLists& homes, const RankLists& lists) {
  int64_t moves = 0;
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    for (const int32_t expert : lists[rank]) {
      const auto& home = homes[rank];
      if (std::find(home.begin(), home.end(), expert) == home.end()) ++moves;
    }
  }
  return moves;
}

void improve(PlannerState& state, const PlannerCosts& costs, const LayerDemand& demand,
             const Homes& homes, int64_t effort) {
  Search(state, costs, demand, homes, effort).run();
}

RankLists searched(const PlannerCosts& costs, const LayerDemand& demand, int64_t effort,
                   std::vector<double>& near_floors) {
  const int most = demand.most_slots;
  const std::vector<int> needed =
      copies_for(demand, costs, most, std::max(1e-12, demand.bound.expert_us));
  const int num_needed = std::accumulate(needed.begin(), needed.end(), 0);
  // Where reading an expert takes no time copies cost nothing.
  const bool are_free = std::all_of(costs.touched_us.begin(), costs.touched_us.end(),
                                    [](double us) { return us <= 0; });
  const int some =
      are_free ? most : std::min(most, num_needed + static_cast<int>(costs.num_ranks()));
  const std::vector<int> more = copies_for(demand, costs, some, 0);
  PlannerState state(costs, demand);
  RankLists best = packed(costs, demand, more, 0, {});
  state.set(best);
  double best_us = state.objective();
  const auto try_start = [&](const std::vector<int>& copies, double near_floor, double chance) {
    RankLists lists = packed(costs, demand, copies, near_floor, {});
    state.set(lists);
    if (state.objective() >= best_us * (1 - chance)) return false;
    best_us = state.objective();
    best = std::move(lists);
    return true;
  };
  // As many copies as there is room for tell their loads surest: fewer must be better than by
  // chance.
  if (!costs.has_links() && some > num_needed) try_start(needed, 0, demand.noise);
  if (costs.has_links()) {
    double best_floor = near_floors.front();
    for (const double near_floor : near_floors) {
      if (try_start(more, near_floor, 0)) best_floor = near_floor;
    }
    if (some > num_needed) try_start(needed, best_floor, demand.noise);
    near_floors = {best_floor};
  }
  state.set(best);
  improve(state, costs, demand, {}, effort);
  return state.lists();
}

}  // namespace colibri
