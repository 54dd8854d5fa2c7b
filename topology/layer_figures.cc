#include "topology/layer_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace colibri {
namespace {

// Odds above this are as good as certain.
constexpr double kMostOdds = 1e6;

// Coefficients of x^0 to x^K of a product of (1 + odds x): the weight of all ways to choose.
using Ways = std::vector<double>;

void add_expert(Ways& ways, double odds) {
  for (size_t k = ways.size() - 1; k > 0; --k) ways[k] += odds * ways[k - 1];
}

Ways product(const Ways& a, const Ways& b) {
  Ways c(a.size(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; i + j < b.size(); ++j) c[i + j] += a[i] * b[j];
  }
  return c;
}

// Chances that a token needs nothing of a rank.
class RankChances {
 public:
  RankChances(const Placement& placement, int layer, std::span<const double> shares) {
    const auto num_ranks = static_cast<size_t>(placement.num_ranks());
    top_k_ = std::max(1L, std::lround(std::accumulate(shares.begin(), shares.end(), 0.0)));
    const Ways none = no_expert();
    own_.assign(num_ranks, none);
    replicated_.assign(num_ranks, {});
    for (size_t expert = 0; expert < shares.size(); ++expert) {
      const double odds = std::min(kMostOdds, shares[expert] / std::max(1e-9, 1 - shares[expert]));
      const auto slots = placement.slots_of(layer, static_cast<int>(expert));
      if (slots.size() == 1) {
        add_expert(own_[static_cast<size_t>(slots[0].rank)], odds);
        continue;
      }
      for (const SlotRef& slot : slots) {
        replicated_[static_cast<size_t>(slot.rank)].push_back(all_replicated_.size());
      }
      all_replicated_.push_back({odds, static_cast<double>(slots.size())});
    }
    before_.assign(num_ranks + 1, none);
    after_.assign(num_ranks + 1, none);
    for (size_t r = 0; r < num_ranks; ++r) before_[r + 1] = product(before_[r], own_[r]);
    for (size_t r = num_ranks; r-- > 0;) after_[r] = product(own_[r], after_[r + 1]);
  }

  std::vector<double> none_of_ranks() const {
    Ways all = before_.back();
    for (const Replicated& expert : all_replicated_) add_expert(all, expert.odds);
    std::vector<double> chances(own_.size());
    for (size_t r = 0; r < own_.size(); ++r) chances[r] = ways_without(r).back() / all.back();
    return chances;
  }

 private:
  struct Replicated {
    double odds = 0, num_slots = 1;
  };

  Ways no_expert() const {
    Ways ways(static_cast<size_t>(top_k_) + 1, 0);
    ways[0] = 1;
    return ways;
  }

  // Ways to choose K experts so that no slot of the rank is picked.
  Ways ways_without(size_t rank) const {
    Ways ways = product(before_[rank], after_[rank + 1]);
    size_t next = 0;  // in replicated_[rank], ascending
    for (size_t i = 0; i < all_replicated_.size(); ++i) {
      const Replicated& expert = all_replicated_[i];
      const bool is_here = next < replicated_[rank].size() && replicated_[rank][next] == i;
      if (is_here) ++next;
      add_expert(ways, is_here ? expert.odds * (1 - 1 / expert.num_slots) : expert.odds);
    }
    return ways;
  }

  long top_k_ = 1;
  std::vector<Ways> own_, before_, after_;       // experts with one slot, by rank
  std::vector<Replicated> all_replicated_;       // experts with several slots
  std::vector<std::vector<size_t>> replicated_;  // [R] indexes of them
};

// S1 and S2 of a rank: expected slots of it that a token picks, and expected pairs of them.
struct Moments {
  double first = 0, second = 0;
};

double lower_bound(const Moments& m) {
  if (m.first <= 0) return 0;
  const double j = 1 + std::floor(2 * m.second / m.first);
  return 2 * m.first / (j + 1) - 2 * m.second / (j * (j + 1));
}

double upper_bound(const Moments& m, double top_k) {
  return std::min(1.0, m.first - 2 * m.second / top_k);
}

class PairCorrection {
 public:
  PairCorrection(const Placement& placement, int layer, std::span<const double> shares,
                 const LayerLoads& loads)
      : placement_(placement), layer_(layer), shares_(shares), loads_(loads) {
    for (const double p : shares) {
      top_k_ += p;
      squares_ += p * p;
    }
  }

  double corrected(int rank, double chance) const {
    const Moments counted = moments(rank, true), model = moments(rank, false);
    const double low = lower_bound(model), high = upper_bound(model, top_k_);
    const double place = high > low ? std::clamp((chance - low) / (high - low), 0.0, 1.0) : 0.5;
    const double counted_low = lower_bound(counted);
    const double counted_high = std::max(counted_low, upper_bound(counted, top_k_));
    return std::clamp(counted_low + place * (counted_high - counted_low), 0.0, 1.0);
  }

 private:
  double slots(int32_t expert) const {
    return static_cast<double>(placement_.slots_of(layer_, expert).size());
  }

  // The model's pairs: p_a p_b (K - 1) K / (K^2 - sum p^2), so that all pairs add up to K (K - 1).
  double pair_chance(int32_t a, int32_t b, bool is_counted) const {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    if (is_counted) return loads_.pairs[pair_index(i, j)] / loads_.num_tokens;
    return shares_[i] * shares_[j] * top_k_ * (top_k_ - 1) / (top_k_ * top_k_ - squares_);
  }

  Moments moments(int rank, bool is_counted) const {
    Moments m;
    const auto experts = placement_.experts_of(layer_, rank);
    for (size_t i = 0; i < experts.size(); ++i) {
      m.first += shares_[static_cast<size_t>(experts[i])] / slots(experts[i]);
      for (size_t j = 0; j < i; ++j) {
        m.second += pair_chance(experts[i], experts[j], is_counted) /
                    (slots(experts[i]) * slots(experts[j]));
      }
    }
    return m;
  }

  const Placement& placement_;
  int layer_;
  std::span<const double> shares_;
  const LayerLoads& loads_;
  double top_k_ = 0, squares_ = 0;
};

}  // namespace

LayerFigures layer_figures(const Placement& placement, int layer, std::span<const double> shares,
                           const LayerLoads* pairs_of, double num_tokens) {
  const auto num_ranks = static_cast<size_t>(placement.num_ranks());
  LayerFigures figures{std::vector<double>(num_ranks, 0), std::vector<double>(num_ranks, 0),
                       std::vector<double>(num_ranks, 0)};
  for (size_t expert = 0; expert < shares.size(); ++expert) {
    const auto slots = placement.slots_of(layer, static_cast<int>(expert));
    const double share = shares[expert] / static_cast<double>(slots.size());
    const double touched = share < 1 ? -std::expm1(num_tokens * std::log1p(-share)) : 1;
    for (const SlotRef& slot : slots) {
      figures.pairs[static_cast<size_t>(slot.rank)] += num_tokens * share;
      figures.touched[static_cast<size_t>(slot.rank)] += touched;
    }
  }
  const std::vector<double> none = RankChances(placement, layer, shares).none_of_ranks();
  for (size_t r = 0; r < num_ranks; ++r) figures.rows[r] = num_tokens * std::max(0.0, 1 - none[r]);
  if (pairs_of == nullptr || pairs_of->pairs.empty() || !(pairs_of->num_tokens > 0)) return figures;
  const PairCorrection correction(placement, layer, shares, *pairs_of);
  for (size_t r = 0; r < num_ranks; ++r) {
    figures.rows[r] =
        num_tokens * correction.corrected(static_cast<int>(r), figures.rows[r] / num_tokens);
  }
  return figures;
}

}  // namespace colibri
