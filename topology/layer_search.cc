// Exhaustive search of tiny layers, by branch and bound.
#include <algorithm>
#include <limits>
#include <numeric>

#include "topology/layer_planner.h"

namespace colibri {
namespace {

constexpr size_t kMostRanks = 4, kMostExperts = 8, kMostExtra = 2;

class Search {
 public:
  Search(const LayerProblem& problem, LayerState& state) : problem_(problem), state_(state) {
    for (size_t rank = 0; rank < problem.most_slots.size(); ++rank) {
      if (problem.most_slots[rank] > 0) holders_.push_back(rank);
    }
  }

  LayerLists run() {
    counts_.assign(problem_.shares.size(), 1);
    try_counts(0, problem_.num_slots - static_cast<int>(counts_.size()));
    state_.set_counts(best_counts_);
    return best_;
  }

 private:
  // All ways to give `extra` more slots to experts from `expert` on.
  void try_counts(size_t expert, int extra) {
    if (expert == counts_.size()) {
      if (extra > 0) return;
      state_.set_counts(counts_);
      lists_.assign(problem_.most_slots.size(), {});
      us_.assign(lists_.size(), 0);
      order_.resize(counts_.size());
      std::iota(order_.begin(), order_.end(), 0);
      std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
        return state_.slot_us(a, holders_[0]) > state_.slot_us(b, holders_[0]);
      });
      return place(0, 0, 0);
    }
    const int most = std::min<int>(extra, static_cast<int>(holders_.size()) - 1);
    for (int more = 0; more <= most; ++more) {
      counts_[expert] = 1 + more;
      try_counts(expert + 1, extra - more);
    }
    counts_[expert] = 1;
  }

  // The expert at `at` in order; its slots from rank `from` of the holders on.
  void place(size_t at, int placed, size_t from) {
    if (at == order_.size()) {
      least_ = *std::max_element(us_.begin(), us_.end());
      best_ = lists_;
      best_counts_ = counts_;
      return;
    }
    const int32_t expert = order_[at];
    if (placed == counts_[static_cast<size_t>(expert)]) return place(at + 1, 0, 0);
    for (size_t h = from; h < holders_.size(); ++h) {
      const size_t rank = holders_[h];
      const double us = state_.slot_us(expert, rank);
      const bool is_full = static_cast<int>(lists_[rank].size()) >= problem_.most_slots[rank];
      if (is_full || us_[rank] + us >= least_) continue;
      lists_[rank].push_back(expert);
      us_[rank] += us;
      place(at, placed + 1, h + 1);
      us_[rank] -= us;
      lists_[rank].pop_back();
    }
  }

  const LayerProblem& problem_;
  LayerState& state_;
  std::vector<size_t> holders_;
  std::vector<int> counts_, best_counts_;
  std::vector<int32_t> order_;
  LayerLists lists_, best_;
  std::vector<double> us_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

bool is_tiny(const LayerProblem& problem) {
  size_t num_holders = 0;
  for (const int most : problem.most_slots) num_holders += most > 0 ? 1 : 0;
  return num_holders <= kMostRanks && problem.shares.size() <= kMostExperts &&
         static_cast<size_t>(problem.num_slots) <= problem.shares.size() + kMostExtra;
}

LayerLists best_of_all(const LayerProblem& problem, LayerState& state) {
  return Search(problem, state).run();
}

}  // namespace colibri
