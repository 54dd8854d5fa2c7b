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
    std::vector<RankLists> planned;
    for (size_t i = 0; i < layers_.size(); ++i) {
      demands_.push_back(demand(i));
      planned.push_back(fresh(i, planned));
    }
    if (request_.previous != nullptr) planned = near_previous(std::move(planned));
    return result(planned);
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
    demand.pair_shares = pair_shares(request_.loads, layers_[i]);
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
    return a.pair_shares == b.pair_shares && a.room == b.room && a.shares == b.shares;
  }

  double us(size_t i, const RankLists& lists) const {
    return exact_us(costs_, exact_figures(costs_, demands_[i], lists));
  }

  RankLists fresh(size_t i, const std::vector<RankLists>& planned) {
    is_best_.push_back(false);
    if (i > 0 && are_alike(i, i - 1)) {
      is_best_[i] = is_best_[i - 1];
      return planned[i - 1];
    }
    RankLists lists = searched(costs_, demands_[i], request_.effort, near_floors_);
    if (!can_exhaust(costs_, demands_[i])) return lists;
    Exhausted best =
        exhausted(costs_, demands_[i], us(i, lists), request_.effort * kExhaustiveFactor);
    is_best_[i] = best.is_done;
    return best.lists.empty() ? lists : best.lists;
  }

  RankLists lists_of(const Placement& placement, size_t i) const {
    RankLists lists;
    for (const int rank : costs_.rank_at) {
      const auto experts = placement.experts_of(layers_[i], rank);
      lists.emplace_back(experts.begin(), experts.end());
    }
    return lists;
  }

  std::vector<RankLists> near_previous(std::vector<RankLists> planned);
  struct Replanned {
    RankLists lists;
    int64_t moves = 0;
    double gain_us = 0;
  };
  RankLists kept(size_t i, const RankLists& home) const;
  Replanned replanned(size_t i, const RankLists& best, int64_t most_moves) const;
  Plan result(const std::vector<RankLists>& planned) const;
  Placement placement_of(const std::vector<RankLists>& planned) const;
  Placement contiguous() const;
  bool fits(size_t i, const RankLists& lists) const;
  Placement better_of(const std::vector<RankLists>& planned, const Placement& start,
                      double start_us) const;

  const PlanRequest& request_;
  PlannerCosts costs_;
  std::vector<int> layers_;
  std::vector<std::vector<int>> rooms_;  // [layers][R]
  int64_t most_slots_ = INT32_MAX;       // of a layer
  std::vector<LayerDemand> demands_;
  // Tried on the first layer: the others are like it.
  std::vector<double> near_floors_ = {1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32};
  std::vector<bool> is_best_;  // that nothing is better is known
};

// ---- near a placement that is in use ------------------------------------------------------------

// What of it has room still, and the experts that have none anywhere else.
RankLists Planning::kept(size_t i, const RankLists& home) const {
  const LayerDemand& demand = demands_[i];
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

Planning::Replanned Planning::replanned(size_t i, const RankLists& best, int64_t most_moves) const {
  const RankLists home = lists_of(*request_.previous, i);
  const RankLists begun = kept(i, home);
  const int64_t forced = moves_from(home, begun);
  const double before = us(i, begun), best_us = us(i, best);
  Replanned stays{begun, forced, 0};
  if (best_us >= before * (1 - 1e-9) || most_moves <= forced) return stays;
  const Homes homes{&home, request_.least_gain * before, most_moves};
  PlannerState state(costs_, demands_[i]);
  state.set(begun);
  improve(state, costs_, demands_[i], homes, request_.effort);
  Replanned moved{state.lists(), moves_from(home, state.lists()), 0};
  double after = us(i, moved.lists);
  const double leap = static_cast<double>(moves_from(moved.lists, best)) * homes.move_us;
  if (after - best_us > leap && moves_from(home, best) <= most_moves) {
    moved = {best, moves_from(home, best), 0};
    after = best_us;
  }
  moved.gain_us = before - after;
  return moved.gain_us > 0 ? moved : stays;
}

// Layers share the moves: those that gain most a move come first.
std::vector<RankLists> Planning::near_previous(std::vector<RankLists> planned) {
  std::vector<Replanned> all;
  int64_t left = request_.max_moves, forced = 0, wanted = 0;
  std::vector<int64_t> forced_in(planned.size());
  for (size_t i = 0; i < planned.size(); ++i) {
    const RankLists home = lists_of(*request_.previous, i);
    forced_in[i] = moves_from(home, kept(i, home));
    forced += forced_in[i];
    all.push_back(replanned(i, planned[i], INT64_MAX));
    wanted += all[i].moves;
    is_best_[i] = is_best_[i] && all[i].lists == planned[i];
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
        all[i] = replanned(i, planned[i], forced_in[i] + left);
      }
      left -= all[i].moves - forced_in[i];
    }
  }
  for (size_t i = 0; i < planned.size(); ++i) planned[i] = all[i].lists;
  return planned;
}

// ---- the result ---------------------------------------------------------------------------------

Placement Planning::placement_of(const std::vector<RankLists>& planned) const {
  ExpertLists lists(static_cast<size_t>(request_.shape.num_layers));
  for (auto& ranks : lists) ranks.resize(costs_.num_ranks());
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (size_t at = 0; at < costs_.num_ranks(); ++at) {
      auto& list = lists[static_cast<size_t>(layers_[i])][static_cast<size_t>(costs_.rank_at[at])];
      list = planned[i][at];
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

// `planned`, but parts of `start` where they take less.
Placement Planning::better_of(const std::vector<RankLists>& planned, const Placement& start,
                              double start_us) const {
  std::vector<RankLists> chosen = planned;
  double chosen_us = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const RankLists lists = lists_of(start, i);
    double best_us = us(i, chosen[i]);
    if (const double us_there = us(i, lists); fits(i, lists) && us_there < best_us * (1 - 1e-12)) {
      chosen[i] = lists;
      best_us = us_there;
    }
    chosen_us += best_us + request_.terms.exchange_us;
  }
  // Its remainders of memory may lie in other layers than the plan's.
  return start_us < chosen_us * (1 - 1e-12) ? start : placement_of(chosen);
}

Plan Planning::result(const std::vector<RankLists>& planned) const {
  const Placement start = request_.previous != nullptr ? *request_.previous : contiguous();
  double start_us = 0;
  for (const int layer : layers_) {
    start_us += planned_layer_time(request_, start, layer).total_us();
  }
  const bool compares =
      request_.previous == nullptr && request_.link_weight == 1 && request_.hidden_us == 0;
  Plan plan{compares ? better_of(planned, start, start_us) : placement_of(planned), {}};
  plan.start_us = start_us;
  for (size_t i = 0; i < layers_.size(); ++i) {
    PlannedLayer layer{layers_[i], planned_layer_time(request_, plan.placement, layers_[i]), 0};
    const LayerBound& bound = demands_[i].bound;
    layer.bound_us = bound.expert_us + bound.out_us + bound.back_us + request_.terms.exchange_us;
    if (is_best_[i] && request_.link_weight == 1 && request_.hidden_us == 0)
      layer.bound_us = layer.time.total_us();
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
