#include "topology/planner_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace colibri {
namespace {

// Of what only breaks ties, as parts of the time.
constexpr size_t kMostShifts = 10;
constexpr double kCrossWeight = 1e-3, kSpreadWeight = 1e-4;

}  // namespace

PlannerState::PlannerState(const PlannerCosts& costs, const LayerDemand& demand)
    : costs_(costs),
      demand_(demand),
      num_ranks_(costs.num_ranks()),
      num_experts_(demand.num_experts()),
      uses_pairs_(demand.counts_pairs() && costs.has_links()),
      has_links_(costs.has_links()) {
  spread_weight_ =
      kSpreadWeight / (std::max(1e-9, demand.bound.expert_us) * static_cast<double>(num_ranks_));
  out_.resize(costs.num_out);
  back_.resize(costs.num_back);
  order_.resize(num_ranks_);
  std::iota(order_.begin(), order_.end(), size_t{0});
  time_.resize(num_ranks_);
  rows_.resize(num_ranks_);
  set(RankLists(num_ranks_));
}

void PlannerState::set(const RankLists& lists) {
  lists_ = lists;
  by_load_.clear();  // not prepared
  num_slots_ = 0;
  for (const auto& list : lists_) num_slots_ += static_cast<int>(list.size());
  slot_ = demand_.slots_in(lists_);
  totals_ = demand_.totals(lists_, slot_);
  for (size_t rank = 0; rank < num_ranks_; ++rank) count_rank(rank);
  sum_up();
}

void PlannerState::prepare() {
  is_on_.assign(num_experts_ * num_ranks_, 0);
  holders_.resize(num_experts_ * num_ranks_);
  num_holders_.assign(num_experts_, 0);
  for (size_t rank = 0; rank < num_ranks_; ++rank) {
    for (const int32_t slot : lists_[rank]) {
      const auto e = static_cast<size_t>(slot);
      is_on_[e * num_ranks_ + rank] = 1;
      holders_[e * num_ranks_ + num_holders_[e]++] = static_cast<uint32_t>(rank);
    }
  }
  with_.assign(uses_pairs_ ? num_ranks_ * demand_.pairs->stride() : 0, 0);
  for (auto* slopes : {&by_load_, &by_log_none_, &by_together_}) slopes->assign(num_ranks_, 0);
  for (size_t rank = 0; rank < num_ranks_; ++rank) {
    for (const int32_t slot : lists_[rank]) {
      const auto e = static_cast<size_t>(slot);
      share_with(e, rank, slot_[e].part);
    }
    if (has_links_) count_slopes(rank);
  }
}

// ---- changes ------------------------------------------------------------------------------------

void PlannerState::move(size_t expert, size_t from, size_t to) {
  take(expert, from);
  put(expert, to);
  for (const size_t rank : {from, to}) count_rank(rank);
  sum_up();
}

void PlannerState::swap(size_t a, size_t x, size_t b, size_t y) {
  take(a, x);
  take(b, y);
  put(a, y);
  put(b, x);
  for (const size_t rank : {x, y}) count_rank(rank);
  sum_up();
}

void PlannerState::add_copy(size_t expert, size_t rank) {
  set_copies(expert, num_holders_[expert] + 1);
  put(expert, rank);
  for (const size_t holder : holders(expert)) count_rank(holder);
  sum_up();
}

void PlannerState::drop_copy(size_t expert, size_t rank) {
  take(expert, rank);
  set_copies(expert, num_holders_[expert]);
  count_rank(rank);
  for (const size_t holder : holders(expert)) count_rank(holder);
  sum_up();
}

// Counted pairs of `expert` with the other slots of a rank, a token.
double PlannerState::with(size_t expert, size_t rank) const {
  return uses_pairs_ ? with_[rank * demand_.pairs->stride() + expert] : 0;
}

// A slot of `expert` on the rank counts `part` more among the pairs of all others with it.
void PlannerState::share_with(size_t expert, size_t rank, double part) {
  if (!uses_pairs_) return;
  const size_t stride = demand_.pairs->stride();
  const float* pairs = demand_.pairs->row(expert);
  const auto by = static_cast<float>(part);
  float* with = &with_[rank * stride];
  for (size_t block = 0; block < stride; block += PairTable::kBlock) {
    for (size_t i = 0; i < PairTable::kBlock; ++i) with[block + i] += by * pairs[block + i];
  }
}

// The slots of an expert share its tokens anew.
void PlannerState::set_copies(size_t expert, size_t copies) {
  const SlotFigures before = slot_[expert];
  slot_[expert] = demand_.slot(expert, copies);
  const double more = slot_[expert].part - before.part;
  for (const size_t rank : holders(expert)) {
    totals_[rank].add(before, -1);
    totals_[rank].add(slot_[expert]);
    totals_[rank].together += more * with(expert, rank);
    share_with(expert, rank, more);
  }
}

void PlannerState::put(size_t expert, size_t rank) {
  const SlotFigures& slot = slot_[expert];
  totals_[rank].together += slot.part * with(expert, rank);
  share_with(expert, rank, slot.part);
  totals_[rank].add(slot);
  lists_[rank].push_back(static_cast<int32_t>(expert));
  holders_[expert * num_ranks_ + num_holders_[expert]++] = static_cast<uint32_t>(rank);
  is_on_[expert * num_ranks_ + rank] = 1;
  ++num_slots_;
}

void PlannerState::take(size_t expert, size_t rank) {
  const SlotFigures& slot = slot_[expert];
  totals_[rank].together -= slot.part * with(expert, rank);
  share_with(expert, rank, -slot.part);
  totals_[rank].add(slot, -1);
  auto& list = lists_[rank];
  list.erase(std::find(list.begin(), list.end(), static_cast<int32_t>(expert)));
  uint32_t *first = &holders_[expert * num_ranks_], *last = first + num_holders_[expert]--;
  uint32_t* at = std::find(first, last, static_cast<uint32_t>(rank));
  std::copy(at + 1, last, at);
  is_on_[expert * num_ranks_ + rank] = 0;
  --num_slots_;
}

void PlannerState::count_rank(size_t rank) {
  if (lists_[rank].empty()) totals_[rank] = {};
  const RankTotals& totals = totals_[rank];
  time_[rank] = lists_[rank].empty() ? 0 : costs_.expert_us(rank, totals.touched, totals.load);
  if (!has_links_) return;
  rows_[rank] = demand_.row_chance(totals);
  if (!by_load_.empty()) count_slopes(rank);
}

// How the rows change with what a slot adds.
void PlannerState::count_slopes(size_t rank) {
  const double step = 1e-3 * std::max(totals_[rank].load, 1e-3);
  const auto slope = [&](double RankTotals::*figure, double by) {
    RankTotals more = totals_[rank];
    more.*figure += by;
    return (demand_.row_chance(more) - rows_[rank]) / by;
  };
  by_load_[rank] = slope(&RankTotals::load, step);
  by_log_none_[rank] = slope(&RankTotals::log_none, -step);
  if (uses_pairs_) by_together_[rank] = slope(&RankTotals::together, step);
}

// Few of them have moved.
void PlannerState::sort_ranks() {
  const auto comes_before = [this](size_t a, size_t b) {
    return time_[a] != time_[b] ? time_[a] > time_[b] : a < b;
  };
  for (size_t i = 1; i < num_ranks_; ++i) {
    const size_t rank = order_[i];
    size_t at = i;
    for (; at > 0 && comes_before(rank, order_[at - 1]); --at) order_[at] = order_[at - 1];
    order_[at] = rank;
  }
}

void PlannerState::sum_up() {
  sort_ranks();
  squares_ = cross_ = 0;
  std::fill(out_.begin(), out_.end(), 0);
  std::fill(back_.begin(), back_.end(), 0);
  for (size_t rank = 0; rank < num_ranks_; ++rank) {
    squares_ += time_[rank] * time_[rank];
    if (!has_links_) continue;
    const double rows = costs_.num_tokens * rows_[rank];
    const double results = costs_.adds_results ? rows : costs_.num_tokens * totals_[rank].load;
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
  const auto all = holders(expert);
  if (costs_.domain.empty()) return 0;
  int count = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (costs_.domain[all[i]] != costs_.domain[all[j]]) continue;
      ++count;
      break;
    }
  }
  return count;
}

double PlannerState::summed(double slowest, double squares, double cross) const {
  return slowest + costs_.link_weight * kCrossWeight * cross + spread_weight_ * squares;
}

// Rows of all tokens that a shift makes, along the slopes.
double PlannerState::more_rows(const RankShift& shift) const {
  return costs_.num_tokens *
         (by_load_[shift.rank] * shift.load + by_log_none_[shift.rank] * shift.log_none +
          by_together_[shift.rank] * shift.together);
}

// The busiest links of both directions after `shifts`.
double PlannerState::links_us(std::span<const RankShift> shifts, double& cross) const {
  std::array<double, kMostShifts> rows, results;
  const size_t count = std::min(shifts.size(), rows.size());
  for (size_t i = 0; i < count; ++i) {
    const RankShift& shift = shifts[i];
    rows[i] = more_rows(shift);
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
    const RankTotals& totals = totals_[shift.rank];
    const double us =
        costs_.expert_us(shift.rank, totals.touched + shift.touched, totals.load + shift.load);
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
  if (has_links_) links = links_us(shifts, cross);
  return links + summed(slowest, squares, cross);
}

// The same for two shifts: most of all tries.
double PlannerState::tried_two(const RankShift& x, const RankShift& y) const {
  const RankTotals &of_x = totals_[x.rank], &of_y = totals_[y.rank];
  const double us_x = costs_.expert_us(x.rank, of_x.touched + x.touched, of_x.load + x.load);
  const double us_y = costs_.expert_us(y.rank, of_y.touched + y.touched, of_y.load + y.load);
  double slowest = std::max({costs_.hidden_us, us_x, us_y}), cross = cross_;
  for (const size_t rank : order_) {
    if (rank == x.rank || rank == y.rank) continue;
    slowest = std::max(slowest, time_[rank]);
    break;
  }
  const double before_x = time_[x.rank], before_y = time_[y.rank];
  const double squares =
      squares_ + (us_x * us_x - before_x * before_x) + (us_y * us_y - before_y * before_y);
  if (!has_links_) return summed(slowest, squares, cross);
  const double rows_x = more_rows(x), rows_y = more_rows(y);
  const double results_x = costs_.adds_results ? rows_x : costs_.num_tokens * x.load;
  const double results_y = costs_.adds_results ? rows_y : costs_.num_tokens * y.load;
  cross += costs_.cross_row_us[x.rank] * rows_x + costs_.cross_result_us[x.rank] * results_x +
           costs_.cross_row_us[y.rank] * rows_y + costs_.cross_result_us[y.rank] * results_y;
  const auto busiest = [&](const std::vector<double>& now, const std::vector<double>& each,
                           double more_x, double more_y) {
    const size_t count = now.size();
    const double *each_x = each.data() + x.rank * count, *each_y = each.data() + y.rank * count;
    double most = 0;
    for (size_t l = 0; l < count; ++l) {
      most = std::max(most, now[l] + each_x[l] * more_x + each_y[l] * more_y);
    }
    return most;
  };
  const double links = busiest(out_, costs_.out_us, rows_x, rows_y) +
                       busiest(back_, costs_.back_us, results_x, results_y);
  return costs_.link_weight * links + summed(slowest, squares, cross);
}

double PlannerState::tried_move(size_t expert, size_t from, size_t to) const {
  const SlotFigures& slot = slot_[expert];
  return tried_two(
      {from, -slot.load, -slot.touched, -slot.log_none, -with(expert, from) * slot.part},
      {to, slot.load, slot.touched, slot.log_none, with(expert, to) * slot.part});
}

double PlannerState::tried_swap(size_t a, size_t x, size_t b, size_t y) const {
  const SlotFigures &of_a = slot_[a], &of_b = slot_[b];
  const double load = of_b.load - of_a.load, touched = of_b.touched - of_a.touched;
  const double log_none = of_b.log_none - of_a.log_none;
  double at_x = 0, at_y = 0;
  if (uses_pairs_) {
    // Not met on either rank.
    const double both = of_a.part * of_b.part * demand_.pairs->at(a, b);
    at_x = with(b, x) * of_b.part - both - with(a, x) * of_a.part;
    at_y = with(a, y) * of_a.part - both - with(b, y) * of_b.part;
  }
  return tried_two({x, load, touched, log_none, at_x}, {y, -load, -touched, -log_none, at_y});
}

SlotFigures PlannerState::resized(size_t expert, bool comes) const {
  const size_t now = num_holders_[expert];
  return demand_.slot(expert, std::max<size_t>(1, comes ? now + 1 : now - 1));
}

double PlannerState::tried_copy(size_t expert, size_t rank, bool comes,
                                const SlotFigures& after) const {
  std::array<RankShift, kMostShifts> shifts;
  const size_t now = num_holders_[expert];
  if (now + 1 > kMostShifts || (!comes && now < 2)) return objective_ * 2;  // not tried
  const SlotFigures& before = slot_[expert];
  size_t count = 0;
  for (const size_t holder : holders(expert)) {
    const double stays = !comes && holder == rank ? 0 : 1;
    shifts[count++] = {holder, stays * after.load - before.load,
                       stays * after.touched - before.touched,
                       stays * after.log_none - before.log_none,
                       (stays * after.part - before.part) * with(expert, holder)};
  }
  if (comes) {
    shifts[count++] = {rank, after.load, after.touched, after.log_none,
                       after.part * with(expert, rank)};
  }
  return tried({shifts.data(), count});
}

}  // namespace colibri
