#include <algorithm>
#include <cmath>

#include "topology/layer_planner.h"

namespace colibri {

LayerState::LayerState(const LayerProblem& problem)
    : problem_(problem),
      terms_(*problem.request->terms),
      rule_(problem.shares, problem.request->shape->top_k),
      top_k_(problem.request->shape->top_k),
      counts_(problem.shares.size(), 1),
      rank_us_(problem.most_slots.size()),
      pairs_(rank_us_.size()),
      rows_(rank_us_.size()) {}

void LayerState::set_counts(std::vector<int> counts) { counts_ = std::move(counts); }

void LayerState::set_lists(LayerLists lists) {
  lists_ = std::move(lists);
  for (size_t rank = 0; rank < lists_.size(); ++rank) refresh(rank);
}

double LayerState::chance(int32_t expert) const {
  const auto e = static_cast<size_t>(expert);
  return problem_.shares[e] / counts_[e];
}

double LayerState::slot_us(int32_t expert, size_t rank) const {
  const double q = chance(expert), tokens = terms_.num_tokens;
  const double touched = 1 - std::pow(1 - std::min(q, 1.0), tokens);
  return terms_.touched_us[rank] * touched + terms_.row_us[rank] * q * tokens;
}

bool LayerState::holds(size_t rank, int32_t expert) const {
  const std::vector<int32_t>& list = lists_[rank];
  return std::find(list.begin(), list.end(), expert) != list.end();
}

size_t LayerState::slowest() const {
  return static_cast<size_t>(std::max_element(rank_us_.begin(), rank_us_.end()) - rank_us_.begin());
}

// Of a rank's list without `gone` and with `come`; -1: none.
RankSums LayerState::sums_with(size_t rank, int32_t gone, int32_t come) const {
  std::vector<int32_t> list;
  for (const int32_t expert : lists_[rank]) {
    if (expert != gone) list.push_back(expert);
  }
  if (come >= 0) list.push_back(come);
  RankSums sums;
  for (size_t i = 0; i < list.size(); ++i) {
    const double q = chance(list[i]);
    sums.add(q);
    for (size_t j = 0; j < i && !problem_.pair_shares.empty(); ++j) {
      const auto a = static_cast<size_t>(list[i]), b = static_cast<size_t>(list[j]);
      const double product = problem_.shares[a] * problem_.shares[b];
      if (product <= 0) continue;
      const double other = chance(list[j]);
      sums.pairs += problem_.pair_shares[pair_index(a, b)] * q * other / product;
      sums.pairs_by_chance += q * other * (top_k_ - 1) / top_k_;
    }
  }
  return sums;
}

void LayerState::refresh(size_t rank) {
  const RankSums sums = sums_with(rank, -1, -1);
  rank_us_[rank] = 0;
  for (const int32_t expert : lists_[rank]) rank_us_[rank] += slot_us(expert, rank);
  pairs_[rank] = terms_.num_tokens * sums.share;
  rows_[rank] = problem_.request->ignores_links ? 0 : terms_.num_tokens * rule_.chance(sums);
}

double LayerState::links_us(const std::vector<LinkTerm>& links, std::vector<double> LinkTerm::*us,
                            const std::vector<double>& count) const {
  double most = 0;
  for (const LinkTerm& link : links) {
    const std::vector<double>& each = link.*us;
    double sum = 0;
    for (size_t rank = 0; rank < each.size(); ++rank) sum += each[rank] * count[rank];
    most = std::max(most, sum);
  }
  return most;
}

LayerTime LayerState::time() const {
  LayerTime time;
  for (size_t rank = 0; rank < lists_.size(); ++rank) {
    if (lists_[rank].empty()) continue;
    const double us = terms_.expert_fixed_us[rank] + rank_us_[rank];
    if (us <= time.expert_us) continue;
    time.expert_us = us;
    time.slowest_rank = static_cast<int>(rank);
  }
  time.exchange_us = terms_.exchange_us;
  if (problem_.request->ignores_links) return time;
  time.dispatch_us = links_us(terms_.dispatch_links, &LinkTerm::row_us, rows_);
  time.combine_us =
      links_us(terms_.combine_links, &LinkTerm::result_us, terms_.adds_results ? rows_ : pairs_);
  return time;
}

double LayerState::total_after(size_t from, size_t slot, size_t to, int back) const {
  LayerState& self = const_cast<LayerState&>(*this);
  const double rank_us[] = {rank_us_[from], rank_us_[to]};
  const double pairs[] = {pairs_[from], pairs_[to]}, rows[] = {rows_[from], rows_[to]};
  const std::vector<int32_t> was_from = lists_[from], was_to = lists_[to];
  self.move(from, slot, to, back);
  const double total = time().total_us();
  self.lists_[from] = was_from;
  self.lists_[to] = was_to;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const size_t rank = i == 0 ? from : to;
    self.rank_us_[rank] = rank_us[i];
    self.pairs_[rank] = pairs[i];
    self.rows_[rank] = rows[i];
  }
  return total;
}

void LayerState::move(size_t from, size_t slot, size_t to, int back) {
  const int32_t expert = lists_[from][slot];
  if (back >= 0) {
    std::swap(lists_[from][slot], lists_[to][static_cast<size_t>(back)]);
  } else {
    lists_[from].erase(lists_[from].begin() + static_cast<std::ptrdiff_t>(slot));
    lists_[to].push_back(expert);
  }
  refresh(from);
  refresh(to);
}

}  // namespace colibri
