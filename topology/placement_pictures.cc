#include "topology/placement_pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "topology/svg.h"

namespace colibri {
namespace {

constexpr double kLeft = 64, kTop = 56, kRight = 90, kBottom = 46;

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::vector<int> moe_layers(const ModelShape& shape) {
  std::vector<int> layers;
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    if (shape.layer_is_moe[static_cast<size_t>(layer)]) layers.push_back(layer);
  }
  return layers;
}

double largest(const std::vector<std::vector<double>>& shares) {
  double most = 1e-12;
  for (const auto& layer : shares) {
    for (const double share : layer) most = std::max(most, share);
  }
  return most;
}

// Cells between 3 and 16 pixels, so that many fit and few are seen.
double cell_size(int across, double room) { return std::clamp(room / across, 3.0, 16.0); }

void draw_scale(SvgPicture& picture, double x, double y, const std::string& most) {
  for (int i = 0; i <= 20; ++i) {
    picture.box({.x = x + 5 * i,
                 .y = y,
                 .width = 5,
                 .height = 10,
                 .fill = svg_heat_colour(i / 20.0),
                 .stroke = "none"});
  }
  picture.text(x - 4, y + 9, "0", SvgAnchor::kEnd);
  picture.text(x + 110, y + 9, most);
}

// A label beside as many rows as have room for one.
bool has_label(size_t row, double cell) {
  const auto each = static_cast<size_t>(std::max(1.0, std::ceil(12 / cell)));
  return row % each == 0;
}

}  // namespace

std::string loads_svg(const ModelShape& shape, const std::vector<std::vector<double>>& shares) {
  const std::vector<int> layers = moe_layers(shape);
  const double cell = cell_size(shape.num_experts, 900), most = largest(shares);
  const double height = cell * static_cast<double>(layers.size());
  SvgPicture picture(kLeft + cell * shape.num_experts + kRight, kTop + height + kBottom + 24,
                     "load of each expert");
  picture.text(8, 20, "Load of each expert: tokens that chose it, of all tokens", SvgAnchor::kStart,
               15);
  for (size_t row = 0; row < layers.size(); ++row) {
    const auto layer = static_cast<size_t>(layers[row]);
    const double y = kTop + cell * static_cast<double>(row);
    if (has_label(row, cell)) {
      picture.text(kLeft - 6, y + cell / 2 + 4, std::to_string(layers[row]), SvgAnchor::kEnd, 11);
    }
    for (size_t e = 0; e < shares[layer].size(); ++e) {
      picture.box({.x = kLeft + cell * static_cast<double>(e),
                   .y = y,
                   .width = cell,
                   .height = cell,
                   .fill = svg_heat_colour(shares[layer][e] / most),
                   .stroke = "none",
                   .hover = "layer " + std::to_string(layer) + ", expert " + std::to_string(e) +
                            ": " + fixed(100 * shares[layer][e], 2) + " % of tokens"});
    }
  }
  picture.text(8, kTop - 10, "layer");
  picture.text(kLeft, kTop + height + 18, "expert 0 to " + std::to_string(shape.num_experts - 1));
  draw_scale(picture, kLeft + 12, kTop + height + 34, fixed(100 * most, 1) + " % of tokens");
  return picture.svg();
}

double balancedness(const Placement& placement, int layer, const std::vector<double>& shares) {
  double sum = 0, most = 0;
  int holders = 0;
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    double load = 0;
    for (const int32_t expert : placement.experts_of(layer, rank)) {
      load += shares[static_cast<size_t>(expert)] /
              static_cast<double>(placement.slots_of(layer, expert).size());
    }
    holders += placement.experts_of(layer, rank).empty() ? 0 : 1;
    sum += load;
    most = std::max(most, load);
  }
  return most > 0 ? sum / holders / most : 1;
}

std::string balance_svg(const ModelShape& shape, const std::vector<NamedPlacement>& placements,
                        const std::vector<std::vector<double>>& shares) {
  Chart chart{.title = "How evenly the ranks are loaded",
              .x_label = "layer",
              .y_label = "mean load / largest load of the ranks"};
  for (const NamedPlacement& each : placements) {
    ChartCurve curve{.name = each.name, .points = {}};
    for (const int layer : moe_layers(shape)) {
      curve.points.emplace_back(
          layer, balancedness(*each.placement, layer, shares[static_cast<size_t>(layer)]));
    }
    chart.curves.push_back(std::move(curve));
  }
  return chart_svg(chart);
}

}  // namespace colibri
