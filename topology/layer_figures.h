// What a placement makes of the loads: how many rows, pairs and experts each rank sees in a layer
// of one step, in the mean.
//
// p_e is the chance that a token chooses expert e, sum K; c_e its slots, over which tokens spread
// evenly; q = p_e / c_e. Of a rank, summed over its slots:
//   pairs = T sum q      touched = sum 1 - (1 - q)^T      rows = T P(at least one of its slots)
//
// P of independent choices is 1 - prod (1 - q). The K choices of a token are different experts:
// with the share of mass s of the rank among E' = K^2 / sum p_e^2 experts of equal chance, (1 - K /
// E')^(s E') becomes prod_{j<K} (1 - s E' / (E' - j)). Exact for equal chances. With counts of
// pairs, what those say beyond chance is taken off.
#pragma once

#include <span>
#include <vector>

#include "topology/layer_terms.h"
#include "topology/loads.h"
#include "topology/placement.h"

namespace colibri {

// Sums over the slots of one rank; a planner keeps them while it moves slots.
struct RankSums {
  double share = 0;     // sum of q = p_e / c_e
  double log_none = 0;  // sum of log(1 - q)
  double pairs = 0;     // chance sums of pairs that one token sends here together: from counts
  double pairs_by_chance = 0;

  void add(double q, double sign = 1);
};

// The rule of rows above for one layer.
class RowRule {
 public:
  RowRule() = default;
  // shares [E], sum `top_k`.
  RowRule(std::span<const double> shares, int top_k);
  // The chance that a token goes to the rank.
  double chance(const RankSums& sums) const;

 private:
  double top_k_ = 0, equal_experts_ = 0, log_none_ = 0;
};

// Of one layer with experts. pair_share: [E (E - 1) / 2] chance that a token chooses both, as
// LayerLoads::pairs lie; empty: not known. Cost: O(E + slots * touching pairs where known).
LayerFigures layer_figures(const Placement& placement, int layer, std::span<const double> shares,
                           double num_tokens, std::span<const double> pair_share = {});

// Pair chances of a layer, both phases together; empty when the loads have none.
std::vector<double> pair_shares(const ExpertLoads* loads, int layer);

}  // namespace colibri
