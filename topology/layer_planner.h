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

// What the lists cost, kept while slots move.
class LayerState {
 public:
  explicit LayerState(const LayerProblem& problem);

  // Slots of each expert; changes every cost.
  void set_counts(std::vector<int> counts);
  const std::vector<int>& counts() const { return counts_; }
  void set_lists(LayerLists lists);
  const LayerLists& lists() const { return lists_; }

  double slot_us(int32_t expert, size_t rank) const {
    const auto e = static_cast<size_t>(expert);
    return terms_.touched_us[rank] * touched_[e] + terms_.row_us[rank] * q_[e] * terms_.num_tokens;
  }
  double rank_us(size_t rank) const { return loads_[rank].us; }  // without the fixed part
  bool holds(size_t rank, int32_t expert) const {
    return holds_[rank * counts_.size() + static_cast<size_t>(expert)] != 0;
  }
  size_t slowest() const;
  LayerTime time() const;
  // time().total_us() if the slot left `from` for `to`, and, with `back` >= 0, that of `to` came
  // back. Positions in the lists. Cost: O(R + links), and O(slots) where pairs are known.
  double total_after(size_t from, size_t slot, size_t to, int back) const;
  void move(size_t from, size_t slot, size_t to, int back);

  const LayerProblem& problem() const { return problem_; }

 private:
  struct Load {
    RankSums sums;
    double us = 0, pairs = 0, rows = 0;
  };
  Load load_of(size_t rank) const;
  Load load_with(size_t rank, int32_t gone, int32_t come) const;
  void add_pairs(size_t rank, int32_t gone, int32_t come, RankSums& sums) const;
  void complete(Load& load) const;
  double fixed_us(size_t rank, bool is_empty) const {
    return is_empty ? 0 : terms_.expert_fixed_us[rank];
  }
  double results_of(const Load& load) const { return terms_.adds_results ? load.rows : load.pairs; }

  const LayerProblem& problem_;
  const LayerTerms& terms_;
  RowRule rule_;
  double top_k_ = 0;
  std::vector<int> counts_;
  std::vector<double> q_, log_none_, touched_;  // [E] of one slot
  LayerLists lists_;
  std::vector<char> holds_;                       // [R, E]
  std::vector<Load> loads_;                       // [R]
  std::vector<double> dispatch_us_, combine_us_;  // of each link
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
