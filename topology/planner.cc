#include "topology/planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "topology/layer_figures.h"
#include "topology/planner_limits.h"
#include "topology/planner_search.h"
#include "topology/replan.h"

namespace colibri {
namespace {

// Steps of an exhaustive search, each far cheaper than a candidate of the other.
constexpr int64_t kExhaustiveFactor = 20;
constexpr double kMostNoise = 0.05;

// Of each MoE layer, in order of the layers.
class Planning {
 public:
  explicit Planning(const PlanRequest& request)
      : request_(request), costs_(planner_costs(request)) {
    // In the planner's order of ranks, so that names make no difference.
    std::vector<int64_t> capacity;
    for (const int rank : costs_.rank_at) {
      if (request.capacity_slots.empty()) break;
      capacity.push_back(request.capacity_slots[static_cast<size_t>(rank)]);
    }
    rooms_ = layer_rooms(request.shape, static_cast<int>(costs_.num_ranks()), capacity);
    for (int layer = 0; layer < request.shape.num_layers; ++layer) {
      if (request.shape.layer_is_moe[static_cast<size_t>(layer)]) layers_.push_back(layer);
    }
    if (request.previous != nullptr && !capacity.empty()) make_room_for_previous(capacity);
    const auto num_layers = static_cast<int64_t>(layers_.size());
    if (request.survives_one && !request.capacity_slots.empty() && num_layers > 0) {
      most_slots_ = slots_that_survive(request) / num_layers;
    }
    if (request.replicas >= 0) {
      most_slots_ = std::min<int64_t>(most_slots_, request.shape.num_experts + request.replicas);
    }
  }

  Plan run() {
    const Placement start = request_.previous != nullptr ? *request_.previous : contiguous();
    for (size_t i = 0; i < layers_.size(); ++i) {
      demands_.push_back(demand(i));
      planned_.push_back(fresh(i));
      start_.push_back(judged(i, lists_of(start, i)));
    }
    if (request_.previous != nullptr) move_near_previous();
    return result(start);
  }

 private:
  // A rank whose memory holds its slots of `previous` keeps them, in whichever layers they are.
  void make_room_for_previous(const std::vector<int64_t>& capacity) {
    for (size_t rank = 0; rank < capacity.size(); ++rank) {
      std::vector<int> held;
      bool is_within = true;
      for (size_t i = 0; i < layers_.size(); ++i) {
        held.push_back(static_cast<int>(
            request_.previous->experts_of(layers_[i], costs_.rank_at[rank]).size()));
        is_within = is_within && held[i] <= rooms_[i][rank];
      }
      const int64_t left = capacity[rank] - std::accumulate(held.begin(), held.end(), int64_t{0});
      if (is_within || left < 0) continue;
      const auto num_layers = static_cast<int64_t>(layers_.size());
      for (size_t i = 0; i < layers_.size(); ++i) {
        const int64_t more = left / num_layers + (static_cast<int64_t>(i) < left % num_layers);
        rooms_[i][rank] =
            static_cast<int>(std::min<int64_t>(request_.shape.num_experts, held[i] + more));
      }
    }
  }

  LayerDemand demand(size_t i) const {
    LayerDemand demand;
    demand.shares = expert_shares(request_.loads, request_.shape, layers_[i]);
    demand.top_k = std::accumulate(demand.shares.begin(), demand.shares.end(), 0.0);
    if (PairTable::are_counted(request_.loads, layers_[i])) demand.pairs = &pairs_;
    std::vector<int>& room = demand.room = rooms_[i];
    int64_t all = std::accumulate(room.begin(), room.end(), int64_t{0});
    if (request_.coordinator_slots >= 0 && room.size() > 1) {
      const auto rank0 = std::find(costs_.rank_at.begin(), costs_.rank_at.end(), 0);
      int& of_rank0 = room[static_cast<size_t>(rank0 - costs_.rank_at.begin())];
      const auto rest =
          static_cast<int>(std::max<int64_t>(0, request_.shape.num_experts - (all - of_rank0)));
      const int most = std::min(of_rank0, std::max(request_.coordinator_slots, rest));
      all -= of_rank0 - most;
      of_rank0 = most;
    }
    demand.most_slots = static_cast<int>(std::min(all, most_slots_));
    const auto usable =
        std::count_if(room.begin(), room.end(), [](int slots) { return slots > 0; });
    const double tokens = counted_tokens(layers_[i]) * demand.top_k / static_cast<double>(usable);
    if (tokens > 0) demand.noise = std::min(kMostNoise, 1 / std::sqrt(tokens));
    demand.finish(costs_);
    return demand;
  }

  double counted_tokens(int layer) const {
    double tokens = 0;
    if (request_.loads == nullptr) return tokens;
    for (const LoadPhase phase : {LoadPhase::kPrefill, LoadPhase::kDecode}) {
      tokens += request_.loads->of(phase, layer).num_tokens;
    }
    return tokens;
  }

  bool are_alike(size_t i, size_t j) const {
    const LayerDemand &a = demands_[i], &b = demands_[j];
    if (a.room != b.room || a.shares != b.shares || a.pairs != b.pairs) return false;
    return a.pairs == nullptr || PairTable::are_equal(*request_.loads, layers_[i], layers_[j]);
  }

  // A layer's demand, the table of pairs with it.
  const LayerDemand& look_at(size_t i) {
    if (demands_[i].pairs != nullptr && layer_of_pairs_ != layers_[i]) {
      layer_of_pairs_ = layers_[i];
      pairs_.load(*request_.loads, layer_of_pairs_);
    }
    return demands_[i];
  }

  // Lists of a layer and what they take.
  struct Judged {
    RankLists lists;
    double us = 0;   // what is made small: links weighed, nothing that no placement changes
    LayerTime time;  // by the request's terms
  };
  Judged judged(size_t i, RankLists lists) {
    const LayerFigures figures = exact_figures(costs_, look_at(i), lists);
    LayerFigures named = figures;  // ranks as the request has them
    for (size_t at = 0; at < costs_.num_ranks(); ++at) {
      const auto rank = static_cast<size_t>(costs_.rank_at[at]);
      named.pairs[rank] = figures.pairs[at];
      named.touched[rank] = figures.touched[at];
      named.rows[rank] = figures.rows[at];
    }
    return {std::move(lists), exact_us(costs_, figures), layer_time(request_.terms, named)};
  }

  Judged fresh(size_t i) {
    is_best_.push_back(false);
    if (i > 0 && are_alike(i, i - 1)) {
      is_best_[i] = is_best_[i - 1];
      return planned_[i - 1];
    }
    const LayerDemand& demand = look_at(i);
    Judged found = judged(i, searched(costs_, demand, request_.effort, near_floors_));
    if (!can_exhaust(costs_, demand)) return found;
    const int64_t effort = request_.effort * kExhaustiveFactor;
    Exhausted best = exhausted(costs_, demand, found.us, effort);
    is_best_[i] = best.is_done;
    return best.lists.empty() ? found : judged(i, std::move(best.lists));
  }

  RankLists lists_of(const Placement& placement, size_t i) const {
    RankLists lists;
    for (const int rank : costs_.rank_at) {
      const auto experts = placement.experts_of(layers_[i], rank);
      lists.emplace_back(experts.begin(), experts.end());
    }
    return lists;
  }

  void move_near_previous();
  struct Replanned {
    Judged judged;
    int64_t moves = 0;
    double gain_us = 0;
  };
  RankLists kept(size_t i, const RankLists& home);
  Replanned replanned(size_t i, const Judged& best, int64_t most_moves);
  Plan result(const Placement& start);
  Placement placement_of_planned() const;
  Placement contiguous() const;
  bool fits(size_t i, const RankLists& lists) const;
  bool take_better_of_start();

  const PlanRequest& request_;
  PlannerCosts costs_;
  std::vector<int> layers_;
  std::vector<std::vector<int>> rooms_;  // [layers][R]
  int64_t most_slots_ = INT32_MAX;       // of a layer
  PairTable pairs_;                      // of layer_of_pairs_
  int layer_of_pairs_ = -1;
  std::vector<LayerDemand> demands_;
  std::vector<Judged> planned_, start_;  // start_: previous, or contiguous parts
  // Tried on the first layer: the others are like it.
  std::vector<double> near_floors_ = {1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32};
  std::vector<bool> is_best_;  // that nothing is better is known
};

// ---- near a placement that is in use ------------------------------------------------------------

// What of it has room still, and the experts that have none anywhere else.
RankLists Planning::kept(size_t i, const RankLists& home) {
  const LayerDemand& demand = look_at(i);
  RankLists lists(home.size());
  std::vector<int> copies(demand.num_experts(), 0);
  int num_slots = 0;
  const auto missing = [&] {
    return static_cast<int>(std::count(copies.begin(), copies.end(), 0));
  };
  for (const bool firsts : {true, false}) {
    for (size_t rank = 0; rank < home.size(); ++rank) {
      for (const int32_t expert : home[rank]) {
        int& of_expert = copies[static_cast<size_t>(expert)];
        if ((of_expert == 0) != firsts) continue;
        auto& list = lists[rank];
        if (std::find(list.begin(), list.end(), expert) != list.end()) continue;
        if (static_cast<int>(list.size()) >= demand.room[rank]) continue;
        if (!firsts && num_slots + missing() >= demand.most_slots) continue;
        list.push_back(expert);
        ++of_expert;
        ++num_slots;
      }
    }
  }
  // In the order of the slots as they are, which then keep their numbers.
  for (size_t rank = 0; rank < home.size(); ++rank) {
    std::erase_if(lists[rank] = home[rank], [&, held = lists[rank]](int32_t expert) {
      return std::find(held.begin(), held.end(), expert) == held.end();
    });
  }
  for (int& of_expert : copies) of_expert = std::max(of_expert, 1);
  return packed(costs_, demand, copies, 1, lists);
}

Planning::Replanned Planning::replanned(size_t i, const Judged& best, int64_t most_moves) {
  const RankLists& home = start_[i].lists;
  Judged begun = judged(i, kept(i, home));
  const int64_t forced = moves_from(home, begun.lists);
  const double before = begun.us;
  Replanned stays{std::move(begun), forced, 0};
  if (best.us >= before * (1 - 1e-9) || most_moves <= forced) return stays;
  const Homes homes{&home, request_.least_gain * before, most_moves};
  PlannerState state(costs_, demands_[i]);
  state.set(stays.judged.lists);
  improve(state, costs_, demands_[i], homes, request_.effort);
  Replanned moved{judged(i, state.lists()), moves_from(home, state.lists()), 0};
  const double leap =
      static_cast<double>(moves_from(moved.judged.lists, best.lists)) * homes.move_us;
  if (moved.judged.us - best.us > leap && moves_from(home, best.lists) <= most_moves) {
    moved = {best, moves_from(home, best.lists), 0};
  }
  moved.gain_us = before - moved.judged.us;
  return moved.gain_us > 0 ? moved : stays;
}

// Layers share the moves: those that gain most a move come first.
void Planning::move_near_previous() {
  std::vector<Replanned> all;
  int64_t left = request_.max_moves, forced = 0, wanted = 0;
  std::vector<int64_t> forced_in(planned_.size());
  for (size_t i = 0; i < planned_.size(); ++i) {
    const RankLists& home = start_[i].lists;
    forced_in[i] = moves_from(home, kept(i, home));
    forced += forced_in[i];
    all.push_back(replanned(i, planned_[i], INT64_MAX));
    wanted += all[i].moves;
    is_best_[i] = is_best_[i] && all[i].judged.lists == planned_[i].lists;
  }
  if (left >= 0 && forced > left) {
    fail(ErrorKind::kEnvironment, "--max-moves ", left, ": ", forced,
         " experts of the previous placement have to move, because they do not lie within the "
         "memory of their ranks; want --max-moves ",
         forced, " or more");
  }
  if (left >= 0 && wanted > left) {
    left -= forced;
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto gain_a_move = [&](size_t i) {
      return all[i].gain_us / static_cast<double>(std::max<int64_t>(1, all[i].moves));
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return gain_a_move(a) > gain_a_move(b); });
    for (const size_t i : order) {
      if (all[i].moves - forced_in[i] > left) {
        all[i] = replanned(i, planned_[i], forced_in[i] + left);
      }
      left -= all[i].moves - forced_in[i];
    }
  }
  for (size_t i = 0; i < planned_.size(); ++i) planned_[i] = std::move(all[i].judged);
}

// ---- the result ---------------------------------------------------------------------------------

Placement Planning::placement_of_planned() const {
  ExpertLists lists(static_cast<size_t>(request_.shape.num_layers));
  for (auto& ranks : lists) ranks.resize(costs_.num_ranks());
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (size_t at = 0; at < costs_.num_ranks(); ++at) {
      auto& list = lists[static_cast<size_t>(layers_[i])][static_cast<size_t>(costs_.rank_at[at])];
      list = planned_[i].lists[at];
      if (request_.previous == nullptr) std::sort(list.begin(), list.end());
    }
  }
  return Placement(request_.shape, static_cast<int>(costs_.num_ranks()), lists);
}

Placement Planning::contiguous() const {
  PlacementOptions options{.num_ranks = static_cast<int>(costs_.num_ranks()),
                           .coordinator_experts = std::max(0, request_.coordinator_slots),
                           .capacity_slots = request_.capacity_slots};
  options.coordinator_experts = std::min(options.coordinator_experts, request_.shape.num_experts);
  return contiguous_placement(request_.shape, options);
}

bool Planning::fits(size_t i, const RankLists& lists) const {
  int64_t slots = 0;
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    slots += static_cast<int64_t>(lists[rank].size());
    if (static_cast<int>(lists[rank].size()) > demands_[i].room[rank]) return false;
  }
  return slots <= demands_[i].most_slots;
}

// Layers of the start where they take less. Whether it is better as a whole: its remainders of
// memory may lie in other layers than the plan's.
bool Planning::take_better_of_start() {
  double start_us = 0, planned_us = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Judged& start = start_[i];
    if (start.us < planned_[i].us * (1 - 1e-12) && fits(i, start.lists)) planned_[i] = start;
    start_us += start.time.total_us();
    planned_us += planned_[i].time.total_us();
  }
  return start_us < planned_us * (1 - 1e-12);
}

Plan Planning::result(const Placement& start) {
  const bool compares =
      request_.previous == nullptr && request_.link_weight == 1 && request_.hidden_us == 0;
  const bool stays = compares && take_better_of_start();
  Plan plan{stays ? start : placement_of_planned(), {}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    PlannedLayer layer{layers_[i], (stays ? start_ : planned_)[i].time, 0};
    const LayerBound& bound = demands_[i].bound;
    layer.bound_us = bound.expert_us + bound.out_us + bound.back_us + request_.terms.exchange_us;
    if (is_best_[i] && request_.link_weight == 1 && request_.hidden_us == 0)
      layer.bound_us = layer.time.total_us();
    plan.start_us += start_[i].time.total_us();
    plan.predicted_us += layer.time.total_us();
    plan.bound_us += layer.bound_us;
    plan.layers.push_back(layer);
  }
  if (request_.previous != nullptr) {
    for (const int64_t slots : slots_to_load(*request_.previous, plan.placement)) {
      plan.num_moves += slots;
    }
  }
  if (request_.survives_one) {
    check_survives_one(request_.shape, plan.placement, request_.capacity_slots);
  }
  return plan;
}

}  // namespace

Plan plan_placement(const PlanRequest& request) {
  check_sizes(request);
  check_room(request);
  return Planning(request).run();
}

LayerTime planned_layer_time(const PlanRequest& request, const Placement& placement, int layer) {
  const std::vector<double> shares = expert_shares(request.loads, request.shape, layer);
  return layer_time(request.terms, layer_figures(placement, layer, shares, request.terms.num_tokens,
                                                 pair_shares(request.loads, layer)));
}

double balancedness(const LayerFigures& figures, int num_holders) {
  double sum = 0, most = 0;
  for (const double pairs : figures.pairs) {
    sum += pairs;
    most = std::max(most, pairs);
  }
  return most > 0 ? sum / num_holders / most : 1;
}

}  // namespace colibri
