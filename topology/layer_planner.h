// The planner's work on one layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/layer_figures.h"
#include "topology/layer_terms.h"
#include "topology/planner.h"

namespace colibri {

// Lists of experts, [R][slots].
using LayerLists = std::vector<std::vector<int32_t>>;

struct LayerProblem {
  const PlanRequest* request = nullptr;
  std::span<const double> shares;       // [E]
  std::span<const double> pair_shares;  // [E (E - 1) / 2] or empty
  std::vector<int> most_slots;          // [R] that fit; 0: holds none
  int num_slots = 0;                    // E and replicas
};

// What a list of slots costs, kept while slots move. Experts' costs by rank and the row rule.
class LayerState {
 public:
  explicit LayerState(const LayerProblem& problem);

  // Slots of each expert; changes every cost.
  void set_counts(std::vector<int> counts);
  const std::vector<int>& counts() const { return counts_; }
  void set_lists(LayerLists lists);
  const LayerLists& lists() const { return lists_; }

  double slot_us(int32_t expert, size_t rank) const;
  double rank_us(size_t rank) const { return rank_us_[rank]; }  // without the fixed part
  bool holds(size_t rank, int32_t expert) const;
  size_t slowest() const;
  LayerTime time() const;
  // Time as time().total_us() if the slot left `from` for `to`, and, with `back` >= 0, that of `to`
  // came back. Positions in the lists.
  double total_after(size_t from, size_t slot, size_t to, int back) const;
  void move(size_t from, size_t slot, size_t to, int back);

  const LayerProblem& problem() const { return problem_; }

 private:
  double chance(int32_t expert) const;
  RankSums sums_with(size_t rank, int32_t gone, int32_t come) const;
  void refresh(size_t rank);
  double links_us(const std::vector<LinkTerm>& links, std::vector<double> LinkTerm::*us,
                  const std::vector<double>& count) const;

  const LayerProblem& problem_;
  const LayerTerms& terms_;
  RowRule rule_;
  double top_k_ = 0;
  std::vector<int> counts_;
  LayerLists lists_;
  std::vector<double> rank_us_, pairs_, rows_;  // [R]
};

// Counts of slots by the greedy rule: sum is problem.num_slots.
std::vector<int> greedy_counts(const LayerProblem& problem);
// Longest processing time first. counts must be set.
LayerLists spread(const LayerState& state);
// Moves and swaps; at most `max_moves` slots change rank (-1: any), each for a gain of more than
// `least_gain` of the time.
void improve(LayerState& state, double least_gain, int64_t max_moves);
// The best lists of all where there are at most 4 ranks with room, 8 experts and 10 slots, links
// ignored.
bool is_tiny(const LayerProblem& problem);
LayerLists best_of_all(const LayerProblem& problem, LayerState& state);

double bound_us(const LayerProblem& problem);

}  // namespace colibri
