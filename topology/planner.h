// Decides which rank holds which experts, and which of them twice: the placement with the smallest
// predicted time of a layer (topology/layer_terms.h), each layer for itself.
//
// Method. (1) Slots beyond one an expert go, one after the other, to the expert whose slots carry
// most. (2) Slots in descending order of what they cost, each to the rank that is done first with
// it (longest processing time first). (3) Moves and swaps of slots that make the layer's time
// smaller, at the rank that takes longest, then across the links. Tiny problems are searched
// exhaustively. A pure function; the same request gives the same plan on every machine.
//
// Bound. No placement with the same slots is faster than
//   max(sum over experts of one slot's cost / ranks that may hold any, largest cost of one expert
//   in as many slots as there may be) + the links' time if each token went to one rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/model_shape.h"
#include "topology/layer_terms.h"
#include "topology/placement.h"

namespace colibri {

struct PlanRequest {
  const ModelShape* shape = nullptr;
  const LayerTerms* terms = nullptr;  // of every layer; [R] ranks
  // [L][E] chance that a token chooses each expert, sum K; dense layers empty.
  std::vector<std::vector<double>> shares = {};
  // [L][E (E - 1) / 2] chance that it chooses both; empty, or empty for a layer: not known.
  std::vector<std::vector<double>> pair_shares = {};
  int num_replicas = 0;  // slots a layer beyond one an expert
  bool rank0_holds_experts =
      false;                     // of several ranks; it does anyway where the others have no room
  bool has_equal_slots = false;  // every rank that holds any holds as many (of E + replicas)
  // [R] slots that each rank's memory holds, all layers together; empty: no limit.
  std::vector<int64_t> capacity_slots = {};
  std::vector<int> domain_of_rank = {};  // [R] what fails together; empty: each rank by itself
  bool ignores_links = false;            // for comparison
  // Moves and swaps that are tried across the links, a layer. More find more, up to a point.
  int effort = 400;
  // A placement to stay near: slots move only for a gain of more than a thousandth of the layer.
  const Placement* previous = nullptr;
  int64_t max_moves = -1;  // slots that ranks may have to read; -1: any number
};

struct Plan {
  Placement placement;
  double predicted_us = 0, bound_us = 0;  // sums over the layers
  double expert_us = 0, dispatch_us = 0, combine_us = 0;
  int64_t num_moves = 0;  // slots that are not in `previous`

  double gap() const { return bound_us > 0 ? predicted_us / bound_us - 1 : 0; }
};

// Errors: kEnvironment, naming need and room in slots and bytes, when the experts do not fit into
// the capacities; kInput for more replicas than distinct ranks allow, for a previous placement of
// other ranks, and for sizes that do not match.
Plan plan_placement(const PlanRequest& request);

// What a placement costs by the same terms.
struct PlacementCost {
  double total_us = 0, expert_us = 0, dispatch_us = 0, combine_us = 0;
  double balancedness =
      0;  // mean over the layers of mean time / largest time of the ranks that hold any
  double package_bytes_us = 0, node_bytes_us = 0;  // time on links between sockets, between nodes
};
PlacementCost cost_of(const PlanRequest& request, const Placement& placement);

}  // namespace colibri
