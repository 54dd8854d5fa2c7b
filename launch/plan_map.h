// A picture of a placement: a box for each rank and layer, dark where much is computed.
#pragma once

#include <string>
#include <vector>

#include "topology/layer_terms.h"
#include "topology/placement.h"

namespace colibri {

// figures: of each MoE layer, ascending. On hover: the rank's load against the mean, and its
// experts.
std::string placement_map_svg(const Placement& placement, const std::vector<LayerFigures>& figures,
                              const std::string& title);

}  // namespace colibri
