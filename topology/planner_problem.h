// What the planner's parts work on: ranks in an order that does not depend on their names, links
// that can be the busiest, one layer's demand. Internal to topology/planner*.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/layer_figures.h"
#include "topology/planner.h"
#include "topology/planner_pairs.h"

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
  // Ranks, rows to the first of which cost more than to the second; the dearest first.
  std::vector<std::pair<size_t, size_t>> far_and_near;
  double link_weight = 1, hidden_us = 0;

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

// What one slot of an expert adds to its rank.
struct SlotFigures {
  double load = 0;      // chance that a token picks it
  double touched = 0;   // chance that at least one of T tokens does
  double log_none = 0;  // log of the chance that a token does not
  double part = 1;      // of its expert's tokens
};

// What the slots of one rank come to.
struct RankTotals {
  double load = 0, touched = 0, log_none = 0;
  double squares = 0;   // of the slots' loads
  double together = 0;  // chance sums of pairs of slots that one token picks together: counted ones

  // `sign` times what a slot adds.
  void add(const SlotFigures& slot, double sign = 1) {
    load += sign * slot.load;
    touched += sign * slot.touched;
    log_none += sign * slot.log_none;
    squares += sign * slot.load * slot.load;
  }
};

// One layer: how often experts are chosen, and how many slots each rank may have.
struct LayerDemand {
  std::vector<double> shares;        // [E], sum K
  double top_k = 1;                  // K
  double num_tokens = 0;             // T
  const PairTable* pairs = nullptr;  // null: not counted. Has this layer's while it is looked at
  std::vector<int> room;             // [R] in the planner's order
  int most_slots = 0;                // of the layer
  // Part by which a rank's share of the counted tokens strays by chance: finer balance is not told
  // by them. 0: loads are not counted.
  double noise = 0;
  std::vector<SlotFigures> alone;  // [E] with one copy
  std::vector<size_t> by_share;    // [E] the most chosen first
  RowRule rule;
  LayerBound bound;

  // Fills what follows from the rest: alone, by_share, rule, bound.
  void finish(const PlannerCosts& costs);

  size_t num_experts() const { return shares.size(); }
  bool counts_pairs() const { return pairs != nullptr; }
  // Of each of `copies` slots of an expert.
  SlotFigures slot(size_t expert, size_t copies) const;
  static SlotFigures figures(double load, double num_tokens);
  // [E] of each slot that `lists` have of an expert.
  std::vector<SlotFigures> slots_in(const RankLists& lists) const;
  // [R]; `slot` as above. Pairs where they are counted.
  std::vector<RankTotals> totals(const RankLists& lists,
                                 const std::vector<SlotFigures>& slot) const;
  // That a token goes to a rank.
  double row_chance(const RankTotals& totals) const;
};

// [E] copies: every further one goes to the expert with most tokens a copy. Up to num_slots, at
// most `most_copies` each; stops early where every slot costs at most `enough_us` on a mean rank
// (0: never).
std::vector<int> copies_for(const LayerDemand& demand, const PlannerCosts& costs, int num_slots,
                            double enough_us);

// Figures and time of lists of one layer, as topology/layer_figures.h has them; the links weighed.
LayerFigures exact_figures(const PlannerCosts& costs, const LayerDemand& demand,
                           const RankLists& lists);
double exact_us(const PlannerCosts& costs, const LayerFigures& figures);

LayerBound layer_bound(const PlannerCosts& costs, const LayerDemand& demand);

}  // namespace colibri
