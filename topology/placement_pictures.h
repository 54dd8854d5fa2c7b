// Pictures of loads and placements as SVG: lightness alone tells more from less, numbers on hover.
#pragma once

#include <string>
#include <vector>

#include "base/model_shape.h"
#include "topology/placement.h"

namespace colibri {

// Heat map: a row a layer, a column an expert; shares [L][E], dense layers empty. Dark: often
// chosen, relative to the busiest expert of all.
std::string loads_svg(const ModelShape& shape, const std::vector<std::vector<double>>& shares);

// Balancedness of each layer, of several placements of one load: a curve each.
struct NamedPlacement {
  std::string name;
  const Placement* placement = nullptr;
};
std::string balance_svg(const ModelShape& shape, const std::vector<NamedPlacement>& placements,
                        const std::vector<std::vector<double>>& shares);

// Mean over largest sum of shares of the ranks that hold experts of the layer; 1 for none.
double balancedness(const Placement& placement, int layer, const std::vector<double>& shares);

}  // namespace colibri
