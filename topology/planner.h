// Where experts should lie, and how many copies of each: from what a layer costs (LayerTerms), how
// often experts are chosen, and what each rank can hold. Method and formulas: docs/placement.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topology/layer_terms.h"
#include "topology/loads.h"
#include "topology/placement.h"

namespace colibri {

// What is borrowed outlives the call.
struct PlanRequest {
  const ModelShape& shape;
  const LayerTerms& terms;             // of each MoE layer; its ranks are the plan's, R
  const ExpertLoads* loads = nullptr;  // null: all experts alike
  // [R] slots that each rank's memory holds, all layers together; empty: no limit.
  std::vector<int64_t> capacity_slots = {};
  int coordinator_slots =
      -1;             // most slots a layer on rank 0, where the others hold the rest; -1: any
  int replicas = -1;  // most slots a layer beyond one an expert; -1: as many as help
  std::vector<int> domain_of_rank = {};  // [R] what is lost together: a node, a socket; empty: none
  bool survives_one = false;             // leave room for the experts of any one rank but rank 0
  const Placement* previous = nullptr;   // stay near it
  int64_t max_moves = -1;                // slots that ranks may have to read; -1: any number
  // Part of a layer's time that each slot that moves must gain, with `previous`.
  double least_gain = 5e-4;
  // Of the links' time in what is made small; 0 plans as if bytes cost nothing.
  double link_weight = 1;
  // Of the ranks' time for experts, that is hidden behind something else: less is no gain.
  double hidden_us = 0;
  int64_t effort = 6'000;  // candidates looked at in a layer; the same plan on every machine
};

struct PlannedLayer {
  int layer = 0;
  LayerTime time;
  double bound_us = 0;  // no placement within the limits takes less
};

struct Plan {
  Placement placement;
  std::vector<PlannedLayer> layers;       // MoE layers, ascending
  double predicted_us = 0, bound_us = 0;  // sums over `layers`
  double start_us = 0;    // of `previous`, or of contiguous parts: what the plan is better than
  int64_t num_moves = 0;  // slots that ranks read which `previous` does not have there

  // Part by which the prediction may be above the best there is.
  double gap() const { return bound_us > 0 ? predicted_us / bound_us - 1 : 0; }
};

// Every expert has a slot, no rank two of one expert, no rank more than it can hold. Never slower
// by the terms than contiguous parts; ranks of equal terms may change names without a change of
// time. Deterministic. With `previous`: where a new plan is no better nothing moves. Up to 4 ranks
// and 8 experts the best placement there is, when the search comes to its end. Errors: kEnvironment
// when the experts do not fit, with need, room and the smallest change that would do; also when
// survives_one or max_moves cannot be kept. kInput for sizes that do not match. Cost: about O(L (E
// R + effort)).
Plan plan_placement(const PlanRequest& request);

// Time of one MoE layer under a placement, by request's terms and loads.
LayerTime planned_layer_time(const PlanRequest& request, const Placement& placement, int layer);

// Mean over max of the ranks' expected pairs, over ranks that may hold experts (`num_holders`): 1
// is perfect balance.
double balancedness(const LayerFigures& figures, int num_holders);

}  // namespace colibri
