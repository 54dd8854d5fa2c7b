#include "topology/planner.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/units.h"
#include "topology/layer_planner.h"
#include "topology/replan.h"

namespace colibri {
namespace {

// A gain that is not worth a move: of a plan made anew, of one that stays near another.
constexpr double kFreshGain = 1e-6, kStayGain = 1e-3;

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request),
        shape_(*request.shape),
        num_ranks_(request.terms->row_us.size()),
        capacity_(request.capacity_slots) {
    check_request();
    choose_holders();
    most_slots_ = slots_by_layer();
  }

  Plan plan() {
    ExpertLists lists(static_cast<size_t>(shape_.num_layers));
    double bound = 0, predicted = 0;
    LayerTime parts;
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      const auto at = static_cast<size_t>(layer);
      lists[at].resize(num_ranks_);
      if (!shape_.layer_is_moe[at]) continue;
      const LayerProblem problem = problem_of(at);
      LayerState state(problem);
      fill(layer, problem, state);
      const LayerTime time = state.time();
      predicted += time.total_us();
      bound += bound_us(problem);
      parts.expert_us += time.expert_us;
      parts.dispatch_us += time.dispatch_us;
      parts.combine_us += time.combine_us;
      lists[at] = state.lists();
      for (auto& list : lists[at]) {
        if (request_.previous == nullptr) std::sort(list.begin(), list.end());
      }
    }
    Placement placement(shape_, static_cast<int>(num_ranks_), lists);
    check_capacity(placement, capacity_);
    return {.placement = std::move(placement),
            .predicted_us = predicted,
            .bound_us = bound,
            .expert_us = parts.expert_us,
            .dispatch_us = parts.dispatch_us,
            .combine_us = parts.combine_us,
            .num_moves = num_moves_};
  }

 private:
  void check_request() const {
    const auto layers = static_cast<size_t>(shape_.num_layers);
    if (request_.shares.size() != layers) {
      fail(ErrorKind::kInput, "loads of ", request_.shares.size(), " layers, the model has ",
           layers);
    }
    if (!capacity_.empty() && capacity_.size() != num_ranks_) {
      fail(ErrorKind::kInput, "capacities of ", capacity_.size(), " ranks, want ", num_ranks_);
    }
    if (request_.previous == nullptr) return;
    if (request_.previous->num_ranks() != static_cast<int>(num_ranks_)) {
      fail(ErrorKind::kInput, "the previous placement is for ", request_.previous->num_ranks(),
           " ranks, this run has ", num_ranks_);
    }
  }

  int64_t needed_slots() const {
    return int64_t{shape_.num_moe_layers()} * (shape_.num_experts + request_.num_replicas);
  }

  // Rank 0 too where it is alone, is asked to, or has to.
  void choose_holders() {
    is_holder_.assign(num_ranks_, true);
    if (num_ranks_ == 1 || request_.rank0_holds_experts) return;
    if (request_.previous != nullptr && request_.previous->num_slots(0) > 0) return;
    is_holder_[0] = false;
    if (capacity_.empty()) return;
    const int64_t room = std::accumulate(capacity_.begin() + 1, capacity_.end(), int64_t{0});
    if (room < int64_t{shape_.num_moe_layers()} * shape_.num_experts) is_holder_[0] = true;
  }

  // [L][R] slots that a rank may hold in each layer.
  std::vector<std::vector<int>> slots_by_layer() const {
    const int moe = std::max(1, shape_.num_moe_layers());
    std::vector<std::vector<int>> most(static_cast<size_t>(shape_.num_layers),
                                       std::vector<int>(num_ranks_));
    const int total = shape_.num_experts + request_.num_replicas;
    const auto holders = static_cast<int>(std::count(is_holder_.begin(), is_holder_.end(), true));
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      if (!is_holder_[rank]) continue;
      int seen = 0;
      for (size_t layer = 0; layer < most.size(); ++layer) {
        if (!shape_.layer_is_moe[layer]) continue;
        int64_t fits = shape_.num_experts;
        if (!capacity_.empty()) {
          fits = std::min<int64_t>(fits, capacity_[rank] / moe + (seen < capacity_[rank] % moe));
        }
        if (request_.has_equal_slots)
          fits = std::min<int64_t>(fits, (total + holders - 1) / holders);
        most[layer][rank] = static_cast<int>(fits);
        ++seen;
      }
    }
    check_room(most, total);
    return most;
  }

  void check_room(const std::vector<std::vector<int>>& most, int total) const {
    for (size_t layer = 0; layer < most.size(); ++layer) {
      if (!shape_.layer_is_moe[layer]) continue;
      const int room = std::accumulate(most[layer].begin(), most[layer].end(), 0);
      if (room >= total) continue;
      std::string ranks;
      for (size_t rank = 0; rank < num_ranks_; ++rank) {
        ranks += (rank == 0 ? "" : ", ") + std::to_string(rank) + ": " +
                 std::to_string(most[layer][rank]);
      }
      const int64_t missing = int64_t{total - room} * shape_.num_moe_layers();
      fail(ErrorKind::kEnvironment, "layer ", layer, " has ", total, " slots (", shape_.num_experts,
           " experts, ", request_.num_replicas, " replicas), the ranks have room for ", room,
           " (rank: slots a layer: ", ranks, "); in all layers ", missing, " slots of ",
           format_bytes(shape_.expert_bytes), " are missing, ",
           format_bytes(missing * shape_.expert_bytes),
           "; want fewer replicas, narrower weights, a shorter context or more ranks");
    }
  }

  LayerProblem problem_of(size_t layer) const {
    LayerProblem problem{.request = &request_,
                         .shares = request_.shares[layer],
                         .pair_shares = {},
                         .most_slots = most_slots_[layer],
                         .num_slots = shape_.num_experts + request_.num_replicas};
    if (layer < request_.pair_shares.size()) problem.pair_shares = request_.pair_shares[layer];
    check(problem.shares.size() == static_cast<size_t>(shape_.num_experts), "layer ", layer,
          " has shares of ", problem.shares.size(), " experts");
    return problem;
  }

  void fill(int layer, const LayerProblem& problem, LayerState& state) {
    if (request_.previous != nullptr) return follow(layer, problem, state);
    if (is_tiny(problem) && request_.ignores_links) {
      state.set_lists(best_of_all(problem, state));
      return;
    }
    state.set_counts(greedy_counts(problem));
    state.set_lists(spread(state));
    improve(state, kFreshGain, -1);
  }

  // The previous lists, moved where it pays.
  void follow(int layer, const LayerProblem& problem, LayerState& state) {
    LayerLists lists(num_ranks_);
    std::vector<int> counts(problem.shares.size());
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      const auto experts = request_.previous->experts_of(layer, static_cast<int>(rank));
      lists[rank].assign(experts.begin(), experts.end());
      for (const int32_t expert : experts) ++counts[static_cast<size_t>(expert)];
    }
    const LayerLists before = lists;
    state.set_counts(std::move(counts));
    state.set_lists(std::move(lists));
    const int64_t left = request_.max_moves < 0 ? -1 : request_.max_moves - num_moves_;
    improve(state, kStayGain, left);
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      for (const int32_t expert : state.lists()[rank]) {
        const auto& was = before[rank];
        if (std::find(was.begin(), was.end(), expert) == was.end()) ++num_moves_;
      }
    }
  }

  const PlanRequest& request_;
  const ModelShape& shape_;
  size_t num_ranks_;
  std::vector<int64_t> capacity_;
  std::vector<bool> is_holder_;
  std::vector<std::vector<int>> most_slots_;
  int64_t num_moves_ = 0;
};

// Mean over largest of the ranks that hold any.
double balancedness_of(const LayerState& state) {
  double sum = 0, most = 0;
  int count = 0;
  for (size_t rank = 0; rank < state.lists().size(); ++rank) {
    if (state.lists()[rank].empty()) continue;
    sum += state.rank_us(rank);
    most = std::max(most, state.rank_us(rank));
    ++count;
  }
  return most > 0 ? sum / count / most : 1;
}

}  // namespace

Plan plan_placement(const PlanRequest& request) { return Planner(request).plan(); }

PlacementCost cost_of(const PlanRequest& request, const Placement& placement) {
  PlacementCost cost;
  const ModelShape& shape = *request.shape;
  const LayerTerms& terms = *request.terms;
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    if (!shape.layer_is_moe[at]) continue;
    const std::span<const double> pairs = at < request.pair_shares.size()
                                              ? std::span<const double>(request.pair_shares[at])
                                              : std::span<const double>();
    LayerProblem problem{.request = &request,
                         .shares = request.shares[at],
                         .pair_shares = pairs,
                         .most_slots = std::vector<int>(terms.row_us.size(), shape.num_experts)};
    LayerState state(problem);
    LayerLists lists(terms.row_us.size());
    std::vector<int> counts(problem.shares.size());
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      const auto experts = placement.experts_of(layer, static_cast<int>(rank));
      lists[rank].assign(experts.begin(), experts.end());
      for (const int32_t expert : experts) ++counts[static_cast<size_t>(expert)];
    }
    state.set_counts(std::move(counts));
    state.set_lists(std::move(lists));
    const LayerTime time = state.time();
    cost.total_us += time.total_us();
    cost.expert_us += time.expert_us;
    cost.dispatch_us += time.dispatch_us;
    cost.combine_us += time.combine_us;
    cost.balancedness += balancedness_of(state) / shape.num_moe_layers();
    const LayerFigures figures =
        layer_figures(placement, layer, problem.shares, terms.num_tokens, pairs);
    const auto add = [&](const LinkTerm& link, const std::vector<double>& us,
                         const std::vector<double>& count) {
      for (size_t rank = 0; rank < us.size(); ++rank) {
        if (link.crosses_packages) cost.package_bytes_us += us[rank] * count[rank];
        if (link.crosses_nodes) cost.node_bytes_us += us[rank] * count[rank];
      }
    };
    for (const LinkTerm& link : terms.dispatch_links) add(link, link.row_us, figures.rows);
    for (const LinkTerm& link : terms.combine_links) {
      add(link, link.result_us, terms.adds_results ? figures.rows : figures.pairs);
    }
  }
  return cost;
}

}  // namespace colibri
