#include <algorithm>
#include <cmath>

#include "topology/layer_planner.h"

namespace colibri {
namespace {

constexpr double kAlmostSure = 1 - 1e-9;

}  // namespace

LayerState::LayerState(const LayerProblem& problem)
    : problem_(problem),
      terms_(*problem.request->terms),
      rule_(problem.shares, problem.request->shape->top_k),
      top_k_(problem.request->shape->top_k),
      loads_(problem.most_slots.size()) {
  set_counts(std::vector<int>(problem.shares.size(), 1));
}

void LayerState::set_counts(std::vector<int> counts) {
  counts_ = std::move(counts);
  q_.clear();
  log_none_.clear();
  touched_.clear();
  for (size_t e = 0; e < counts_.size(); ++e) {
    const double q = problem_.shares[e] / std::max(1, counts_[e]);
    const double log_none = std::log1p(-std::min(q, kAlmostSure));
    q_.push_back(q);
    log_none_.push_back(log_none);
    touched_.push_back(1 - std::exp(terms_.num_tokens * log_none));
  }
}

void LayerState::set_lists(LayerLists lists) {
  lists_ = std::move(lists);
  holds_.assign(lists_.size() * counts_.size(), 0);
  for (size_t rank = 0; rank < lists_.size(); ++rank) {
    for (const int32_t expert : lists_[rank]) {
      holds_[rank * counts_.size() + static_cast<size_t>(expert)] = 1;
    }
  }
  for (size_t rank = 0; rank < lists_.size(); ++rank) loads_[rank] = load_of(rank);
  const auto sum = [this](const std::vector<double>& us, bool is_dispatch) {
    double total = 0;
    for (size_t rank = 0; rank < us.size(); ++rank) {
      total += us[rank] * (is_dispatch ? loads_[rank].rows : results_of(loads_[rank]));
    }
    return total;
  };
  dispatch_us_.clear();
  combine_us_.clear();
  if (problem_.request->ignores_links) return;
  for (const LinkTerm& link : terms_.dispatch_links) {
    dispatch_us_.push_back(sum(link.row_us, true));
  }
  for (const LinkTerm& link : terms_.combine_links) {
    combine_us_.push_back(sum(link.result_us, false));
  }
}

size_t LayerState::slowest() const {
  const auto less = [](const Load& a, const Load& b) { return a.us < b.us; };
  return static_cast<size_t>(std::max_element(loads_.begin(), loads_.end(), less) - loads_.begin());
}

LayerState::Load LayerState::load_of(size_t rank) const {
  Load load;
  for (const int32_t expert : lists_[rank]) {
    const auto e = static_cast<size_t>(expert);
    load.sums.share += q_[e];
    load.sums.log_none += log_none_[e];
    load.us += slot_us(expert, rank);
  }
  add_pairs(rank, -1, -1, load.sums);
  complete(load);
  return load;
}

// Of a rank's list without `gone` and with `come`; -1: none.
LayerState::Load LayerState::load_with(size_t rank, int32_t gone, int32_t come) const {
  Load load = loads_[rank];
  const auto add = [&](int32_t expert, double sign) {
    if (expert < 0) return;
    const auto e = static_cast<size_t>(expert);
    load.sums.share += sign * q_[e];
    load.sums.log_none += sign * log_none_[e];
    load.us += sign * slot_us(expert, rank);
  };
  add(gone, -1);
  add(come, 1);
  load.sums.pairs = load.sums.pairs_by_chance = 0;
  add_pairs(rank, gone, come, load.sums);
  complete(load);
  return load;
}

void LayerState::add_pairs(size_t rank, int32_t gone, int32_t come, RankSums& sums) const {
  if (problem_.pair_shares.empty()) return;
  std::vector<int32_t> list;
  for (const int32_t expert : lists_[rank]) {
    if (expert != gone) list.push_back(expert);
  }
  if (come >= 0) list.push_back(come);
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto a = static_cast<size_t>(list[i]), b = static_cast<size_t>(list[j]);
      const double product = problem_.shares[a] * problem_.shares[b];
      if (product <= 0) continue;
      sums.pairs += problem_.pair_shares[pair_index(a, b)] * q_[a] * q_[b] / product;
      sums.pairs_by_chance += q_[a] * q_[b] * (top_k_ - 1) / top_k_;
    }
  }
}

void LayerState::complete(Load& load) const {
  load.pairs = terms_.num_tokens * load.sums.share;
  load.rows = problem_.request->ignores_links ? 0 : terms_.num_tokens * rule_.chance(load.sums);
}

LayerTime LayerState::time() const {
  LayerTime time;
  for (size_t rank = 0; rank < lists_.size(); ++rank) {
    const double us = fixed_us(rank, lists_[rank].empty()) + loads_[rank].us;
    if (us <= time.expert_us) continue;
    time.expert_us = us;
    time.slowest_rank = static_cast<int>(rank);
  }
  time.exchange_us = terms_.exchange_us;
  for (const double us : dispatch_us_) time.dispatch_us = std::max(time.dispatch_us, us);
  for (const double us : combine_us_) time.combine_us = std::max(time.combine_us, us);
  return time;
}

double LayerState::total_after(size_t from, size_t slot, size_t to, int back) const {
  const int32_t expert = lists_[from][slot];
  const int32_t other = back >= 0 ? lists_[to][static_cast<size_t>(back)] : -1;
  const Load a = load_with(from, expert, other), b = load_with(to, other, expert);
  double experts = std::max(fixed_us(from, other < 0 && lists_[from].size() == 1) + a.us,
                            fixed_us(to, false) + b.us);
  for (size_t rank = 0; rank < lists_.size(); ++rank) {
    if (rank == from || rank == to) continue;
    experts = std::max(experts, fixed_us(rank, lists_[rank].empty()) + loads_[rank].us);
  }
  double dispatch = 0, combine = 0;
  for (size_t i = 0; i < dispatch_us_.size(); ++i) {
    const std::vector<double>& us = terms_.dispatch_links[i].row_us;
    dispatch = std::max(dispatch, dispatch_us_[i] + us[from] * (a.rows - loads_[from].rows) +
                                      us[to] * (b.rows - loads_[to].rows));
  }
  for (size_t i = 0; i < combine_us_.size(); ++i) {
    const std::vector<double>& us = terms_.combine_links[i].result_us;
    combine =
        std::max(combine, combine_us_[i] + us[from] * (results_of(a) - results_of(loads_[from])) +
                              us[to] * (results_of(b) - results_of(loads_[to])));
  }
  return experts + dispatch + combine + terms_.exchange_us;
}

void LayerState::move(size_t from, size_t slot, size_t to, int back) {
  const int32_t expert = lists_[from][slot];
  const auto set = [this](size_t rank, int32_t which, char is_held) {
    holds_[rank * counts_.size() + static_cast<size_t>(which)] = is_held;
  };
  set(from, expert, 0);
  set(to, expert, 1);
  if (back >= 0) {
    set(to, lists_[to][static_cast<size_t>(back)], 0);
    set(from, lists_[to][static_cast<size_t>(back)], 1);
    std::swap(lists_[from][slot], lists_[to][static_cast<size_t>(back)]);
  } else {
    lists_[from].erase(lists_[from].begin() + static_cast<std::ptrdiff_t>(slot));
    lists_[to].push_back(expert);
  }
  for (const size_t rank : {from, to}) {
    const Load before = loads_[rank];
    loads_[rank] = load_of(rank);
    const double rows = loads_[rank].rows - before.rows;
    const double results = results_of(loads_[rank]) - results_of(before);
    for (size_t i = 0; i < dispatch_us_.size(); ++i) {
      dispatch_us_[i] += terms_.dispatch_links[i].row_us[rank] * rows;
    }
    for (size_t i = 0; i < combine_us_.size(); ++i) {
      combine_us_[i] += terms_.combine_links[i].result_us[rank] * results;
    }
  }
}

}  // namespace colibri
