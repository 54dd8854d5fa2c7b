// Tiny problems: every placement is looked at, or shown to be no better than one that was.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "topology/planner_search.h"

namespace colibri {
namespace {

constexpr size_t kMostRanks = 4, kMostExperts = 8;

class Exhaustion {
 public:
  Exhaustion(const PlannerCosts& costs, const LayerDemand& demand, int64_t effort)
      : costs_(costs),
        demand_(demand),
        num_ranks_(costs.num_ranks()),
        num_experts_(demand.num_experts()),
        effort_(effort) {
    order_.resize(num_experts_);
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return demand.shares[a] > demand.shares[b]; });
    for (size_t r = 1; r < num_ranks_; ++r) {
      for (size_t q = 0; q < r; ++q) is_like_[r][q] = are_alike(r, q);
    }
    ranks_.fill({});
  }

  // Lists better than what takes `known_us`; empty when there are none.
  RankLists run(double known_us) {
    best_us_ = known_us;
    go(0, demand_.most_slots);
    return best_;
  }
  bool is_done() const { return effort_ > 0; }

 private:
  struct Rank {
    RankSums sums;
    double touched = 0;
    int slots = 0;
  };

  bool are_alike(size_t r, size_t q) const {
    const auto same = [&](const std::vector<double>& us, size_t count) {
      return std::equal(us.begin() + static_cast<std::ptrdiff_t>(r * count),
                        us.begin() + static_cast<std::ptrdiff_t>((r + 1) * count),
                        us.begin() + static_cast<std::ptrdiff_t>(q * count));
    };
    return demand_.room[r] == demand_.room[q] && same(costs_.fixed_us, 1) &&
           same(costs_.touched_us, 1) && same(costs_.row_us, 1) &&
           same(costs_.out_us, costs_.num_out) && same(costs_.back_us, costs_.num_back);
  }

  // No placement that goes on from here takes less. Rows grow with the slots of a rank.
  double least_us() const {
    double slowest = std::max(costs_.hidden_us, demand_.bound.expert_us);
    double out = demand_.bound.out_us;
    double back = demand_.bound.back_us;
    std::array<double, kMostRanks> rows{};
    for (size_t r = 0; r < num_ranks_; ++r) {
      slowest = std::max(slowest, costs_.expert_us(r, ranks_[r].touched, ranks_[r].sums.share));
      if (!demand_.counts_pairs())
        rows[r] = costs_.num_tokens * demand_.rule.chance(ranks_[r].sums);
    }
    for (size_t l = 0; l < costs_.num_out; ++l) {
      double us = 0;
      for (size_t r = 0; r < num_ranks_; ++r) us += costs_.out_us[r * costs_.num_out + l] * rows[r];
      out = std::max(out, us);
    }
    for (size_t l = 0; l < costs_.num_back; ++l) {
      double us = 0;
      for (size_t r = 0; r < num_ranks_; ++r) {
        us += costs_.back_us[r * costs_.num_back + l] *
              (costs_.adds_results ? rows[r] : costs_.num_tokens * ranks_[r].sums.share);
      }
      back = std::max(back, us);
    }
    return slowest + costs_.link_weight * (out + back);
  }

  void go(size_t next, int slots_left) {
    if (--effort_ <= 0) return;
    double us = least_us();
    if (us >= best_us_ * (1 - 1e-12)) return;
    if (next == num_experts_) {
      if (demand_.counts_pairs()) us = exact_us(costs_, exact_figures(costs_, demand_, lists()));
      if (us >= best_us_ * (1 - 1e-12)) return;
      best_us_ = us;
      best_ = lists();
      return;
    }
    const int most_copies = slots_left - static_cast<int>(num_experts_ - next) + 1;
    for (unsigned mask = 1; mask < (1u << num_ranks_); ++mask) {
      const int copies = __builtin_popcount(mask);
      if (copies > most_copies || !has_room(mask) || is_mirrored(mask)) continue;
      const auto before = ranks_;
      put(order_[next], mask, copies);
      masks_[order_[next]] = mask;
      go(next + 1, slots_left - copies);
      ranks_ = before;
    }
  }

  bool has_room(unsigned mask) const {
    for (size_t r = 0; r < num_ranks_; ++r) {
      if ((mask >> r & 1) != 0 && ranks_[r].slots >= demand_.room[r]) return false;
    }
    return true;
  }

  // The same with two empty ranks' names exchanged comes earlier.
  bool is_mirrored(unsigned mask) const {
    for (size_t r = 1; r < num_ranks_; ++r) {
      if ((mask >> r & 1) == 0 || ranks_[r].slots > 0) continue;
      for (size_t q = 0; q < r; ++q) {
        if (is_like_[r][q] && (mask >> q & 1) == 0 && ranks_[q].slots == 0) return true;
      }
    }
    return false;
  }

  void put(size_t expert, unsigned mask, int copies) {
    const SlotFigures slot = demand_.slot(expert, static_cast<size_t>(copies));
    for (size_t r = 0; r < num_ranks_; ++r) {
      Rank& rank = ranks_[r];
      if ((mask >> r & 1) == 0) continue;
      rank.sums.share += slot.load;
      rank.sums.log_none += slot.log_none;
      rank.touched += slot.touched;
      ++rank.slots;
    }
  }

  RankLists lists() const {
    RankLists lists(num_ranks_);
    for (size_t e = 0; e < num_experts_; ++e) {
      for (size_t r = 0; r < num_ranks_; ++r) {
        if ((masks_[e] >> r & 1) != 0) lists[r].push_back(static_cast<int32_t>(e));
      }
    }
    return lists;
  }

  const PlannerCosts& costs_;
  const LayerDemand& demand_;
  size_t num_ranks_, num_experts_;
  int64_t effort_;
  std::vector<size_t> order_;  // experts, the busiest first
  std::array<std::array<bool, kMostRanks>, kMostRanks> is_like_{};
  std::array<Rank, kMostRanks> ranks_;
  std::array<unsigned, kMostExperts> masks_{};
  double best_us_ = 0;
  RankLists best_;
};

}  // namespace

bool can_exhaust(const PlannerCosts& costs, const LayerDemand& demand) {
  return costs.num_ranks() <= kMostRanks && demand.num_experts() <= kMostExperts;
}

Exhausted exhausted(const PlannerCosts& costs, const LayerDemand& demand, double known_us,
                    int64_t effort) {
  Exhaustion exhaustion(costs, demand, effort);
  Exhausted result{exhaustion.run(known_us), false};
  result.is_done = exhaustion.is_done();
  return result;
}

}  // namespace colibri
