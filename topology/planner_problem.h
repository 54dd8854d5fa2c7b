// What the planner's parts work on: ranks in an order that does not depend on their names, links
// that can be the busiest, one layer's demand. Internal to topology/planner*.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/planner.h"

namespace colibri {

// Experts of each rank in one layer, ranks in the planner's order.
using RankLists = std::vector<std::vector<int32_t>>;

// Costs with ranks in the planner's order.
struct PlannerCosts {
  std::vector<int> rank_at;  // [R] the rank's number in the request
  double num_tokens = 0;
  bool adds_results = false;
  std::vector<double> fixed_us, touched_us, row_us;  // [R]
  // [R, links] of links that no other link exceeds on every rank.
  size_t num_out = 0, num_back = 0;
  std::vector<double> out_us, back_us;
  // [R] over all links between sockets or nodes together.
  std::vector<double> cross_row_us, cross_result_us;
  std::vector<int> domain;  // [R]; empty: none
  double link_weight = 1;

  size_t num_ranks() const { return rank_at.size(); }
  bool has_links() const { return link_weight > 0 && num_out + num_back > 0; }
  double expert_us(size_t rank, double touched, double load) const {
    if (touched <= 1e-12) return 0;  // no expert
    return fixed_us[rank] + touched_us[rank] * touched + row_us[rank] * num_tokens * load;
  }
};
PlannerCosts planner_costs(const PlanRequest& request);

// Lower bounds on what any placement takes.
struct LayerBound {
  double expert_us = 0, out_us = 0, back_us = 0;
};

// One layer: how often experts are chosen, and how many slots each rank may have.
struct LayerDemand {
  std::vector<double> shares;         // [E], sum K
  double top_k = 1;                   // K
  const LayerLoads* pairs = nullptr;  // with counted pairs, or null
  std::vector<int> room;              // [R] in the planner's order
  int most_slots = 0;                 // of the layer
  LayerBound bound;                   // layer_bound() of the rest
  // Part by which a rank's share of the counted tokens strays by chance: finer balance is not told by
  // them. 0: loads are not counted.
  double noise = 0;

  size_t num_experts() const { return shares.size(); }
  // Chance that a slot that is picked with chance `share` gets one of T tokens at least.
  static double touched(double share, double num_tokens);
};

// Chance that at least one of a rank's slots is picked, `first` being how many are expected and
// `second` how many pairs of them: of the binomial (or negative binomial) spread with these moments.
// Exact for one slot, within 0.3 % for equal shares.
double chance_of_any(double first, double second);

// [E] copies: every further one goes to the expert with most tokens a copy. Up to num_slots, at most
// `most_copies` each; stops early where every slot costs at most `enough_us` on a mean rank
// (0: never).
std::vector<int> copies_for(const LayerDemand& demand, const PlannerCosts& costs, int num_slots,
                            double enough_us);

// Figures and time of lists of one layer, as topology/layer_figures.h has them; the links weighed.
LayerFigures exact_figures(const PlannerCosts& costs, const LayerDemand& demand,
                           const RankLists& lists);
double exact_us(const PlannerCosts& costs, const LayerFigures& figures);

LayerBound layer_bound(const PlannerCosts& costs, const LayerDemand& demand);

}  // namespace colibri
