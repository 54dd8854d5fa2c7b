#include "topology/placement_pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "topology/svg.h"

namespace colibri {
namespace {

constexpr double kLeft = 64, kTop = 56, kRight = 90, kBottom = 46, kGap = 6;

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

std::string map_svg(const ModelShape& shape, const Placement& placement,
                    const std::vector<std::vector<double>>& shares) {
  const std::vector<int> layers = moe_layers(shape);
  std::vector<size_t> widest(static_cast<size_t>(placement.num_ranks()));
  size_t across = 0;
  for (size_t rank = 0; rank < widest.size(); ++rank) {
    for (const int layer : layers) {
      widest[rank] =
          std::max(widest[rank], placement.experts_of(layer, static_cast<int>(rank)).size());
    }
    across += widest[rank];
  }
  const double cell = cell_size(static_cast<int>(std::max<size_t>(1, across)), 1000);
  const double most = largest(shares);
  const double width =
      cell * static_cast<double>(across) + kGap * static_cast<double>(placement.num_ranks());
  const double height = cell * static_cast<double>(layers.size());
  SvgPicture picture(kLeft + width + kRight, kTop + height + kBottom, "experts on ranks");
  picture.text(
      8, 20,
      "Experts on ranks: a cell is a slot, dark where it carries much, framed where it is a "
      "replica",
      SvgAnchor::kStart, 15);
  double x = kLeft;
  for (size_t rank = 0; rank < widest.size(); ++rank) {
    if (widest[rank] == 0) continue;
    picture.text(x, kTop - 8, "rank " + std::to_string(rank), SvgAnchor::kStart, 11);
    for (size_t row = 0; row < layers.size(); ++row) {
      const auto& of_layer = shares[static_cast<size_t>(layers[row])];
      const auto experts = placement.experts_of(layers[row], static_cast<int>(rank));
      for (size_t slot = 0; slot < experts.size(); ++slot) {
        const auto copies = placement.slots_of(layers[row], experts[slot]).size();
        const double share =
            of_layer[static_cast<size_t>(experts[slot])] / static_cast<double>(copies);
        picture.box({.x = x + cell * static_cast<double>(slot),
                     .y = kTop + cell * static_cast<double>(row),
                     .width = cell - 0.5,
                     .height = cell - 0.5,
                     .fill = svg_heat_colour(share / most),
                     .stroke = copies > 1 ? "#d55e00" : "none",
                     .hover = "layer " + std::to_string(layers[row]) + ", rank " +
                              std::to_string(rank) + ", expert " + std::to_string(experts[slot]) +
                              (copies > 1 ? ", one of " + std::to_string(copies) + " slots" : "") +
                              ": " + fixed(100 * share, 2) + " % of tokens"});
      }
    }
    x += cell * static_cast<double>(widest[rank]) + kGap;
  }
  for (size_t row = 0; row < layers.size(); ++row) {
    if (!has_label(row, cell)) continue;
    const double y = kTop + cell * static_cast<double>(row) + cell / 2 + 4;
    picture.text(kLeft - 6, y, std::to_string(layers[row]), SvgAnchor::kEnd, 11);
    picture.text(
        x + 4, y,
        fixed(balancedness(placement, layers[row], shares[static_cast<size_t>(layers[row])]), 3),
        SvgAnchor::kStart, 11);
  }
  picture.text(8, kTop - 8, "layer");
  picture.text(x + 4, kTop - 8, "balance", SvgAnchor::kStart, 11);
  draw_scale(picture, kLeft + 12, kTop + height + 18, fixed(100 * most, 1) + " % of tokens");
  return picture.svg();
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
