#include "topology/planner_state.h"

#include <algorithm>
#include <cmath>

namespace colibri {
namespace {

// Of what only breaks ties, as parts of the time.
constexpr double kCrossWeight = 1e-3, kSpreadWeight = 1e-4;

void erase(std::vector<size_t>& list, size_t value) {
  list.erase(std::find(list.begin(), list.end(), value));
}

}  // namespace

PlannerState::PlannerState(const PlannerCosts& costs, const LayerDemand& demand)
    : costs_(costs),
      demand_(demand),
      num_ranks_(costs.num_ranks()),
      num_experts_(demand.num_experts()),
      uses_pairs_(demand.pairs != nullptr && costs.has_links()) {
  double squares = 0;
  for (const double p : demand.shares) squares += p * p;
  const double k = demand.top_k;
  if (k * k > squares) pair_factor_ = k * (k - 1) / (k * k - squares);
  scale_us_ = std::max(1e-9, demand.bound.expert_us);
  out_.resize(costs.num_out);
  back_.resize(costs.num_back);
  set(RankLists(num_ranks_));
}

// ---- changes ------------------------------------------------------------------------------------

void PlannerState::set(const RankLists& lists) {
  lists_.assign(num_ranks_, {});
  is_on_.assign(num_experts_ * num_ranks_, 0);
  holders_.assign(num_experts_, {});
  num_slots_ = 0;
  load_.assign(num_experts_, 0);
  touched_.assign(num_experts_, 0);
  with_.assign(uses_pairs_ ? num_experts_ * num_ranks_ : 0, 0);
  for (auto* figures : {&rank_load_, &rank_touched_, &rank_squares_, &rank_together_, &time_,
                        &rows_, &by_load_, &by_together_}) {
    figures->assign(num_ranks_, 0);
  }
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    for (const int32_t expert : lists[rank]) put(static_cast<size_t>(expert), rank);
  }
  for (size_t rank = 0; rank < num_ranks_; ++rank) count_rank(rank);
  sum_up();
}

void PlannerState::move(size_t expert, size_t from, size_t to) {
  take(expert, from);
  put(expert, to);
  for (const size_t rank : {from, to}) count_rank(rank);
  for (const size_t rank : holders_[expert]) count_rank(rank);
  sum_up();
}

void PlannerState::swap(size_t a, size_t x, size_t b, size_t y) {
  take(a, x);
  take(b, y);
  put(a, y);
  put(b, x);
  for (const size_t rank : {x, y}) count_rank(rank);
  for (const size_t expert : {a, b}) {
    for (const size_t rank : holders_[expert]) count_rank(rank);
  }
  sum_up();
}

void PlannerState::add_copy(size_t expert, size_t rank) {
  put(expert, rank);
  for (const size_t holder : holders_[expert]) count_rank(holder);
  sum_up();
}

void PlannerState::drop_copy(size_t expert, size_t rank) {
  take(expert, rank);
  count_rank(rank);
  for (const size_t holder : holders_[expert]) count_rank(holder);
  sum_up();
}

double PlannerState::pair_chance(size_t a, size_t b) const {
  if (!uses_pairs_) return pair_factor_ * demand_.shares[a] * demand_.shares[b];
  return demand_.pairs->pairs[pair_index(a, b)] / demand_.pairs->num_tokens;
}

// Expected pairs of `expert` with the other slots of a rank, a token in which it is chosen.
double PlannerState::with(size_t expert, size_t rank) const {
  if (uses_pairs_) return with_[expert * num_ranks_ + rank];
  const double own = is_on(expert, rank) ? load_[expert] : 0;
  return pair_factor_ * demand_.shares[expert] * (rank_load_[rank] - own);
}

// A slot of `expert` on the rank counts `part` more among the pairs of all others with it.
void PlannerState::share_with(size_t expert, size_t rank, double part) {
  if (!uses_pairs_) return;
  for (size_t other = 0; other < num_experts_; ++other) {
    if (other == expert) continue;
    with_[other * num_ranks_ + rank] += part * pair_chance(expert, other);
  }
}

// The slots of an expert share its tokens anew.
void PlannerState::set_copies(size_t expert, size_t copies) {
  const double before = load_[expert], touched_before = touched_[expert];
  const double part_before = before > 0 ? before / demand_.shares[expert] : 0;
  const double part = copies > 0 ? 1 / static_cast<double>(copies) : 0;
  load_[expert] = demand_.shares[expert] * part;
  touched_[expert] = LayerDemand::touched(load_[expert], costs_.num_tokens);
  for (const size_t rank : holders_[expert]) {
    rank_load_[rank] += load_[expert] - before;
    rank_touched_[rank] += touched_[expert] - touched_before;
    rank_squares_[rank] += load_[expert] * load_[expert] - before * before;
    if (uses_pairs_) rank_together_[rank] += (part - part_before) * with(expert, rank);
    share_with(expert, rank, part - part_before);
  }
}

void PlannerState::put(size_t expert, size_t rank) {
  set_copies(expert, holders_[expert].size() + 1);
  lists_[rank].push_back(static_cast<int32_t>(expert));
  const double part = 1 / static_cast<double>(holders_[expert].size() + 1);
  if (uses_pairs_) rank_together_[rank] += part * with(expert, rank);
  share_with(expert, rank, part);
  holders_[expert].push_back(rank);
  is_on_[expert * num_ranks_ + rank] = 1;
  ++num_slots_;
  rank_load_[rank] += load_[expert];
  rank_touched_[rank] += touched_[expert];
  rank_squares_[rank] += load_[expert] * load_[expert];
}

void PlannerState::take(size_t expert, size_t rank) {
  const double part = 1 / static_cast<double>(holders_[expert].size());
  if (uses_pairs_) rank_together_[rank] -= part * with(expert, rank);
  share_with(expert, rank, -part);
  rank_load_[rank] -= load_[expert];
  rank_touched_[rank] -= touched_[expert];
  rank_squares_[rank] -= load_[expert] * load_[expert];
  erase(holders_[expert], rank);
  auto& list = lists_[rank];
  list.erase(std::find(list.begin(), list.end(), static_cast<int32_t>(expert)));
  is_on_[expert * num_ranks_ + rank] = 0;
  --num_slots_;
  set_copies(expert, holders_[expert].size());
}

void PlannerState::count_rank(size_t rank) {
  if (lists_[rank].empty()) {
    rank_load_[rank] = rank_touched_[rank] = rank_squares_[rank] = rank_together_[rank] = 0;
  }
  const double load = std::max(0.0, rank_load_[rank]);
  time_[rank] = lists_[rank].empty() ? 0 : costs_.expert_us(rank, rank_touched_[rank], load);
  if (!costs_.has_links()) return;
  if (!uses_pairs_) {
    rank_together_[rank] =
        std::max(0.0, pair_factor_ * (load * load - rank_squares_[rank]) / 2);
  }
  const double together = std::max(0.0, rank_together_[rank]);
  rows_[rank] = chance_of_any(load, together);
  const double step = 1e-3 * std::max(load, 1e-3);
  by_load_[rank] = (chance_of_any(load + step, together) - rows_[rank]) / step;
  by_together_[rank] = (chance_of_any(load, together + step) - rows_[rank]) / step;
}

void PlannerState::sum_up() {
  if (order_.size() != num_ranks_) {
    order_.resize(num_ranks_);
    for (size_t rank = 0; rank < num_ranks_; ++rank) order_[rank] = rank;
  }
  std::sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
    return time_[a] != time_[b] ? time_[a] > time_[b] : a < b;
  });
  squares_ = cross_ = 0;
  std::fill(out_.begin(), out_.end(), 0);
  std::fill(back_.begin(), back_.end(), 0);
  for (size_t rank = 0; rank < num_ranks_; ++rank) {
    squares_ += time_[rank] * time_[rank];
    if (!costs_.has_links()) continue;
    const double rows = costs_.num_tokens * rows_[rank];
    const double results = costs_.adds_results ? rows : costs_.num_tokens * rank_load_[rank];
    for (size_t i = 0; i < out_.size(); ++i) out_[i] += costs_.out_us[rank * out_.size() + i] * rows;
    for (size_t i = 0; i < back_.size(); ++i) {
      back_[i] += costs_.back_us[rank * back_.size() + i] * results;
    }
    cross_ += costs_.cross_row_us[rank] * rows + costs_.cross_result_us[rank] * results;
  }
  objective_ = tried({});
}

// ---- tries --------------------------------------------------------------------------------------

int PlannerState::collisions(size_t expert) const {
  const auto& holders = holders_[expert];
  if (costs_.domain.empty()) return 0;
  int count = 0;
  for (size_t i = 1; i < holders.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (costs_.domain[holders[i]] != costs_.domain[holders[j]]) continue;
      ++count;
      break;
    }
  }
  return count;
}

double PlannerState::summed(double slowest, double squares, double cross) const {
  return slowest + costs_.link_weight * kCrossWeight * cross +
         kSpreadWeight * squares / (scale_us_ * static_cast<double>(num_ranks_));
}

// The busiest links of both directions after `shifts`.
double PlannerState::links_us(std::span<const RankShift> shifts, double& cross) const {
  std::array<double, 8> rows, results;
  const size_t count = std::min(shifts.size(), rows.size());
  for (size_t i = 0; i < count; ++i) {
    const RankShift& shift = shifts[i];
    rows[i] = costs_.num_tokens * (by_load_[shift.rank] * shift.load +
                                   by_together_[shift.rank] * shift.together);
    results[i] = costs_.adds_results ? rows[i] : costs_.num_tokens * shift.load;
    cross += costs_.cross_row_us[shift.rank] * rows[i] +
             costs_.cross_result_us[shift.rank] * results[i];
  }
  double most_out = 0, most_back = 0;
  for (size_t l = 0; l < out_.size(); ++l) {
    double us = out_[l];
    for (size_t i = 0; i < count; ++i) us += costs_.out_us[shifts[i].rank * out_.size() + l] * rows[i];
    most_out = std::max(most_out, us);
  }
  for (size_t l = 0; l < back_.size(); ++l) {
    double us = back_[l];
    for (size_t i = 0; i < count; ++i) {
      us += costs_.back_us[shifts[i].rank * back_.size() + l] * results[i];
    }
    most_back = std::max(most_back, us);
  }
  return costs_.link_weight * (most_out + most_back);
}

double PlannerState::tried(std::span<const RankShift> shifts) const {
  double slowest = 0, squares = squares_, cross = cross_;
  for (const RankShift& shift : shifts) {
    const double us = costs_.expert_us(shift.rank, rank_touched_[shift.rank] + shift.touched,
                                       rank_load_[shift.rank] + shift.load);
    squares += us * us - time_[shift.rank] * time_[shift.rank];
    slowest = std::max(slowest, us);
  }
  for (const size_t rank : order_) {
    const auto is_rank = [rank](const RankShift& shift) { return shift.rank == rank; };
    if (std::any_of(shifts.begin(), shifts.end(), is_rank)) continue;
    slowest = std::max(slowest, time_[rank]);
    break;
  }
  double links = 0;
  if (costs_.has_links()) links = links_us(shifts, cross);
  return links + summed(slowest, squares, cross);
}

double PlannerState::tried_move(size_t expert, size_t from, size_t to) const {
  const double copies = static_cast<double>(holders_[expert].size());
  const double load = load_[expert], touched = touched_[expert];
  const RankShift shifts[] = {{from, -load, -touched, -with(expert, from) / copies},
                              {to, load, touched, with(expert, to) / copies}};
  return tried(shifts);
}

double PlannerState::tried_swap(size_t a, size_t x, size_t b, size_t y) const {
  const double load = load_[b] - load_[a], touched = touched_[b] - touched_[a];
  const double of_a = 1 / static_cast<double>(holders_[a].size());
  const double of_b = 1 / static_cast<double>(holders_[b].size());
  double at_x = 0, at_y = 0;
  if (costs_.has_links()) {
    const double both = of_a * of_b * pair_chance(a, b);  // not met on either rank
    at_x = with(b, x) * of_b - both - with(a, x) * of_a;
    at_y = with(a, y) * of_a - both - with(b, y) * of_b;
  }
  const RankShift shifts[] = {{x, load, touched, at_x}, {y, -load, -touched, at_y}};
  return tried(shifts);
}

double PlannerState::tried_copy(size_t expert, size_t rank, bool comes) const {
  constexpr size_t kMostShifts = 8;
  std::array<RankShift, kMostShifts> shifts;
  const size_t now = holders_[expert].size(), next = comes ? now + 1 : now - 1;
  if (now + 1 > kMostShifts || next == 0) return objective_ * 2;  // not tried
  const double part = 1 / static_cast<double>(now), then = 1 / static_cast<double>(next);
  const double load = demand_.shares[expert] * then;
  const double touched = LayerDemand::touched(load, costs_.num_tokens);
  size_t count = 0;
  for (const size_t holder : holders_[expert]) {
    const bool leaves = !comes && holder == rank;
    shifts[count++] = {holder, (leaves ? 0 : load) - load_[expert],
                       (leaves ? 0 : touched) - touched_[expert],
                       ((leaves ? 0 : then) - part) * with(expert, holder)};
  }
  if (comes) shifts[count++] = {rank, load, touched, then * with(expert, rank)};
  return tried({shifts.data(), count});
}

}  // namespace colibri
