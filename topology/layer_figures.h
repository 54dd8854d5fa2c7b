// What a rank has to do in a layer under a placement, as expected from how often experts are
// chosen.
#pragma once

#include <span>
#include <vector>

#include "topology/layer_terms.h"
#include "topology/loads.h"
#include "topology/placement.h"

namespace colibri {

// Figures of one MoE layer for `num_tokens` tokens, p_e being the chance [E] that a token chooses
// expert e (expert_shares: sum K), c_e its slots, each of which is as likely to be picked:
//   pairs[r]   = T sum over its slots of p_e / c_e
//   touched[r] = sum over its slots of 1 - (1 - p_e / c_e)^T
//   rows[r]    = T P(a token wants at least one slot of r)
// A token chooses K experts, no two alike. The P of rows is that of the spread over sets of K with
// most entropy for odds p_e / (1 - p_e) (conditional Poisson sampling): exact for equal shares,
// where it gives W (1 - C(E - E/W, K) / C(E, K)) rows a token over W ranks. `pairs_of`, loads of
// the layer with counted pairs, or null: P is moved to the place between its bounds by first and
// second moments (Dawson and Sankoff's below, S1 - 2 S2 / K above) at which it lies for the model's
// own pairs. Cost: O(E K + R K^2 + replicas K), and O(E^2 / R) with pairs.
LayerFigures layer_figures(const Placement& placement, int layer, std::span<const double> shares,
                           const LayerLoads* pairs_of, double num_tokens);

}  // namespace colibri
