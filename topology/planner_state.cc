#include "topology/planner_state.h"

#include <algorithm>
#include <cmath>

namespace colibri {
namespace {

// Of what only breaks ties, as parts of the time.
constexpr size_t kMostShifts = 10;
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
      rule_(demand.row_rule()),
      uses_pairs_(demand.counts_pairs() && costs.has_links()) {
  scale_us_ = std::max(1e-9, demand.bound.expert_us);
  out_.resize(costs.num_out);
  back_.resize(costs.num_back);
  set(RankLists(num_ranks_));
}

// ---- changes ------------------------------------------------------------------------------------

void PlannerState::set(const RankLists& lists) {
  lists_.assign(num_ranks_, {});
  is_on_.assign(num_experts_ * num_ranks_, 0);
  holders_.resize(num_experts_);
  for (auto& holders : holders_) holders.clear();
  num_slots_ = 0;
  slot_.assign(num_experts_, {});
  with_.assign(uses_pairs_ ? num_experts_ * num_ranks_ : 0, 0);
  for (auto* figures : {&rank_load_, &rank_touched_, &rank_log_none_, &rank_squares_,
                        &rank_together_, &time_, &rows_, &by_load_, &by_log_none_, &by_together_}) {
    figures->assign(num_ranks_, 0);
  }
  std::vector<size_t> copies(num_experts_, 0);
  for (const auto& list : lists) {
    for (const int32_t expert : list) ++copies[static_cast<size_t>(expert)];
  }
  for (size_t e = 0; e < num_experts_; ++e) {
    if (copies[e] > 0) slot_[e] = demand_.slot(e, copies[e]);
  }
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    for (const int32_t e : lists[rank]) {
      const auto expert = static_cast<size_t>(e);
      place(expert, rank, 1 / static_cast<double>(copies[expert]));
    }
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

// Counted pairs of `expert` with the other slots of a rank, a token.
double PlannerState::with(size_t expert, size_t rank) const {
  return uses_pairs_ ? with_[rank * num_experts_ + expert] : 0;
}

// A slot of `expert` on the rank counts `part` more among the pairs of all others with it.
void PlannerState::share_with(size_t expert, size_t rank, double part) {
  if (!uses_pairs_) return;
  const double* pairs = &demand_.pair_table[expert * num_experts_];
  double* with = &with_[rank * num_experts_];
  for (size_t other = 0; other < num_experts_; ++other) with[other] += part * pairs[other];
}

// `sign` times what a slot adds to its rank.
void PlannerState::weigh(const SlotFigures& slot, size_t rank, double sign) {
  rank_load_[rank] += sign * slot.load;
  rank_touched_[rank] += sign * slot.touched;
  rank_log_none_[rank] += sign * slot.log_none;
  rank_squares_[rank] += sign * slot.load * slot.load;
}

// The slots of an expert share its tokens anew.
void PlannerState::set_copies(size_t expert, size_t copies) {
  const SlotFigures before = slot_[expert];
  const auto held = static_cast<double>(holders_[expert].size());
  slot_[expert] = copies > 0 ? demand_.slot(expert, copies) : SlotFigures{};
  // What every holder's slot counted before, and what it counts now.
  const double part = copies > 0 ? 1 / static_cast<double>(copies) : 0;
  const double part_before =
      held > 0 ? 1 / (copies > holders_[expert].size() ? held : held + 1) : 0;
  for (const size_t rank : holders_[expert]) {
    weigh(before, rank, -1);
    weigh(slot_[expert], rank, 1);
    rank_together_[rank] += (part - part_before) * with(expert, rank);
    share_with(expert, rank, part - part_before);
  }
}

void PlannerState::place(size_t expert, size_t rank, double part) {
  rank_together_[rank] += part * with(expert, rank);
  share_with(expert, rank, part);
  lists_[rank].push_back(static_cast<int32_t>(expert));
  holders_[expert].push_back(rank);
  is_on_[expert * num_ranks_ + rank] = 1;
  ++num_slots_;
  weigh(slot_[expert], rank, 1);
}

void PlannerState::put(size_t expert, size_t rank) {
  const size_t copies = holders_[expert].size() + 1;
  set_copies(expert, copies);
  place(expert, rank, 1 / static_cast<double>(copies));
}

void PlannerState::take(size_t expert, size_t rank) {
  const double part = 1 / static_cast<double>(holders_[expert].size());
  rank_together_[rank] -= part * with(expert, rank);
  share_with(expert, rank, -part);
  weigh(slot_[expert], rank, -1);
  erase(holders_[expert], rank);
  auto& list = lists_[rank];
  list.erase(std::find(list.begin(), list.end(), static_cast<int32_t>(expert)));
  is_on_[expert * num_ranks_ + rank] = 0;
  --num_slots_;
  set_copies(expert, holders_[expert].size());
}

// That a token goes to the rank, were it to hold so much more.
double PlannerState::chance(size_t rank, const RankShift& shift) const {
  RankSums sums;
  sums.share = std::max(0.0, rank_load_[rank] + shift.load);
  sums.log_none = std::min(0.0, rank_log_none_[rank] + shift.log_none);
  if (uses_pairs_) {
    const double squares = sums.share * sums.share - rank_squares_[rank];
    sums.pairs = std::max(0.0, rank_together_[rank] + shift.together);
    sums.pairs_by_chance = std::max(0.0, squares / 2 * (demand_.top_k - 1) / demand_.top_k);
  }
  return rule_.chance(sums);
}

void PlannerState::count_rank(size_t rank) {
  if (lists_[rank].empty()) {
    for (auto* figures :
         {&rank_load_, &rank_touched_, &rank_log_none_, &rank_squares_, &rank_together_}) {
      (*figures)[rank] = 0;
    }
  }
  time_[rank] =
      lists_[rank].empty() ? 0 : costs_.expert_us(rank, rank_touched_[rank], rank_load_[rank]);
  if (!costs_.has_links()) return;
  rows_[rank] = chance(rank, {});
  const double step = 1e-3 * std::max(rank_load_[rank], 1e-3);
  by_load_[rank] = (chance(rank, {.load = step}) - rows_[rank]) / step;
  by_log_none_[rank] = (chance(rank, {.log_none = -step}) - rows_[rank]) / -step;
  if (uses_pairs_) by_together_[rank] = (chance(rank, {.together = step}) - rows_[rank]) / step;
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
    for (size_t i = 0; i < out_.size(); ++i)
      out_[i] += costs_.out_us[rank * out_.size() + i] * rows;
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
  std::array<double, kMostShifts> rows, results;
  const size_t count = std::min(shifts.size(), rows.size());
  for (size_t i = 0; i < count; ++i) {
    const RankShift& shift = shifts[i];
    rows[i] = costs_.num_tokens *
              (by_load_[shift.rank] * shift.load + by_log_none_[shift.rank] * shift.log_none +
               by_together_[shift.rank] * shift.together);
    results[i] = costs_.adds_results ? rows[i] : costs_.num_tokens * shift.load;
    cross +=
        costs_.cross_row_us[shift.rank] * rows[i] + costs_.cross_result_us[shift.rank] * results[i];
  }
  double most_out = 0, most_back = 0;
  for (size_t l = 0; l < out_.size(); ++l) {
    double us = out_[l];
    for (size_t i = 0; i < count; ++i)
      us += costs_.out_us[shifts[i].rank * out_.size() + l] * rows[i];
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
  double slowest = costs_.hidden_us, squares = squares_, cross = cross_;
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
  const SlotFigures& slot = slot_[expert];
  const RankShift shifts[] = {
      {from, -slot.load, -slot.touched, -slot.log_none, -with(expert, from) / copies},
      {to, slot.load, slot.touched, slot.log_none, with(expert, to) / copies}};
  return tried(shifts);
}

double PlannerState::tried_swap(size_t a, size_t x, size_t b, size_t y) const {
  const SlotFigures &of_a = slot_[a], &of_b = slot_[b];
  const double load = of_b.load - of_a.load, touched = of_b.touched - of_a.touched;
  const double log_none = of_b.log_none - of_a.log_none;
  double at_x = 0, at_y = 0;
  if (uses_pairs_) {
    const double part_a = 1 / static_cast<double>(holders_[a].size());
    const double part_b = 1 / static_cast<double>(holders_[b].size());
    // Not met on either rank.
    const double both = part_a * part_b * demand_.pair_table[a * num_experts_ + b];
    at_x = with(b, x) * part_b - both - with(a, x) * part_a;
    at_y = with(a, y) * part_a - both - with(b, y) * part_b;
  }
  const RankShift shifts[] = {{x, load, touched, log_none, at_x},
                              {y, -load, -touched, -log_none, at_y}};
  return tried(shifts);
}

double PlannerState::tried_copy(size_t expert, size_t rank, bool comes) const {
  std::array<RankShift, kMostShifts> shifts;
  const size_t now = holders_[expert].size(), next = comes ? now + 1 : now - 1;
  if (now + 1 > kMostShifts || next == 0) return objective_ * 2;  // not tried
  const double part = 1 / static_cast<double>(now), then = 1 / static_cast<double>(next);
  const SlotFigures &before = slot_[expert], after = demand_.slot(expert, next);
  size_t count = 0;
  for (const size_t holder : holders_[expert]) {
    const double stays = !comes && holder == rank ? 0 : 1;
    shifts[count++] = {
        holder, stays * after.load - before.load, stays * after.touched - before.touched,
        stays * after.log_none - before.log_none, (stays * then - part) * with(expert, holder)};
  }
  if (comes) {
    shifts[count++] = {rank, after.load, after.touched, after.log_none, then * with(expert, rank)};
  }
  return tried({shifts.data(), count});
}

}  // namespace colibri
