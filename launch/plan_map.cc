#include "launch/plan_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "topology/svg.h"

namespace colibri {
namespace {

constexpr double kLeft = 70, kTop = 60, kHeight = 14;

std::string hover_text(const Placement& placement, int layer, int rank, double part) {
  std::string text =
      fmt::format("layer {}, rank {}: {:.2f} of the mean; experts", layer, rank, part);
  for (const int32_t expert : placement.experts_of(layer, rank)) {
    const size_t copies = placement.slots_of(layer, expert).size();
    text += fmt::format(" {}{}", expert, copies > 1 ? fmt::format(" (1 of {})", copies) : "");
  }
  return text;
}

}  // namespace

std::string placement_map_svg(const Placement& placement, const std::vector<LayerFigures>& figures,
                              const std::string& title) {
  const int num_ranks = placement.num_ranks();
  const double width = std::clamp(900.0 / num_ranks, 8.0, 60.0);
  SvgPicture picture(kLeft + width * num_ranks + 20,
                     kTop + kHeight * static_cast<double>(figures.size()) + 40, title);
  picture.text(10, 20, title, SvgAnchor::kStart, 14);
  picture.text(10, 38, "tokens that a rank computes: pale few, dark twice the mean and more");
  size_t row = 0;
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    if (!placement.has_experts(layer)) continue;
    const std::vector<double>& pairs = figures.at(row).pairs;
    int holders = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      holders += placement.experts_of(layer, rank).empty() ? 0 : 1;
    }
    const double mean = std::accumulate(pairs.begin(), pairs.end(), 0.0) / std::max(1, holders);
    const double y = kTop + kHeight * static_cast<double>(row++);
    picture.text(kLeft - 8, y + kHeight - 3, fmt::format("layer {}", layer), SvgAnchor::kEnd, 10);
    for (int rank = 0; rank < num_ranks; ++rank) {
      const double part = mean > 0 ? pairs[static_cast<size_t>(rank)] / mean : 0;
      picture.box({.x = kLeft + width * rank,
                   .y = y,
                   .width = width - 1,
                   .height = kHeight - 1,
                   .fill = svg_heat_colour(std::min(1.0, part / 2)),
                   .stroke = "none",
                   .hover = hover_text(placement, layer, rank, part)});
    }
  }
  for (int rank = 0; rank < num_ranks; rank += std::max(1, num_ranks / 16)) {
    picture.text(kLeft + width * (rank + 0.5), kTop + kHeight * static_cast<double>(row) + 16,
                 std::to_string(rank), SvgAnchor::kMiddle, 10);
  }
  picture.text(kLeft, kTop + kHeight * static_cast<double>(row) + 32, "rank");
  return picture.svg();
}

}  // namespace colibri
