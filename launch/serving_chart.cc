// The picture of serving_report.h: three panels under each other that share the axis of loads.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "launch/serving_report.h"
#include "topology/svg.h"

namespace colibri {
namespace {

constexpr double kLeft = 76, kRight = 24, kTop = 64, kPanelHeight = 150, kPanelGap = 46;
constexpr double kPlotWidth = 520, kBottom = 52;
constexpr size_t kMedianColour = 0, kP99Colour = 1;

struct Panel {
  const char* title;
  Spread ServingFigures::*spread;
};
constexpr Panel kPanels[] = {{"time to first token, ms", &ServingFigures::ttft_ms},
                             {"time per output token, ms", &ServingFigures::tpot_ms},
                             {"end to end, ms", &ServingFigures::e2e_ms}};
constexpr double kHeight = kTop + std::size(kPanels) * (kPanelHeight + kPanelGap) - kPanelGap;

class LoadChart {
 public:
  LoadChart(const ServingFacts& facts, const std::vector<ServingRun>& runs)
      : runs_(runs),
        title_("Latency over load: " + facts.model + ", " + facts.endpoint),
        picture_(kLeft + kPlotWidth + kRight, kHeight + kBottom, title_) {}

  std::string svg();

 private:
  double x_of(size_t run_idx) const {
    const auto count = static_cast<double>(runs_.size());
    return kLeft + kPlotWidth * (static_cast<double>(run_idx) + 0.5) / count;
  }
  bool sweeps_concurrency() const {
    return runs_.size() > 1 && runs_[0].max_concurrency != runs_[1].max_concurrency;
  }
  void add_panel(const Panel& panel, double top);
  void add_axes(double top, double most);
  void add_series(const Panel& panel, double top, double most, bool is_median);
  void add_legend();

  const std::vector<ServingRun>& runs_;
  std::string title_;
  SvgPicture picture_;
};

void LoadChart::add_axes(double top, double most) {
  const double bottom = top + kPanelHeight;
  const double step = svg_tick_step(most);
  for (int i = 0; i * step <= most * 1.0001; ++i) {
    const double y = bottom - kPanelHeight * (i * step) / most;
    picture_.line({.x1 = kLeft,
                   .y1 = y,
                   .x2 = kLeft + kPlotWidth,
                   .y2 = y,
                   .colour = i == 0 ? "#444" : "#ddd"});
    picture_.text(kLeft - 8, y + 4, fmt::format("{:g}", i * step), SvgAnchor::kEnd);
  }
  picture_.line({.x1 = kLeft, .y1 = top, .x2 = kLeft, .y2 = bottom});
  for (size_t i = 0; i < runs_.size(); ++i) {
    picture_.line({.x1 = x_of(i), .y1 = bottom, .x2 = x_of(i), .y2 = bottom + 4});
    const std::string load = sweeps_concurrency() ? std::to_string(runs_[i].max_concurrency)
                                                  : rate_text(runs_[i].request_rate);
    picture_.text(x_of(i), bottom + 18, load, SvgAnchor::kMiddle);
  }
}

void LoadChart::add_series(const Panel& panel, double top, double most, bool is_median) {
  const std::string colour = svg_colour(is_median ? kMedianColour : kP99Colour);
  std::vector<std::pair<double, double>> points;
  std::vector<double> values;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Spread& spread = runs_[i].figures.*panel.spread;
    if (spread.count == 0) continue;
    values.push_back(is_median ? spread.median : spread.p99);
    points.emplace_back(x_of(i), top + kPanelHeight * (1 - values.back() / most));
  }
  picture_.polyline(points, colour, !is_median);
  for (size_t i = 0; i < points.size(); ++i) {
    picture_.dot(points[i].first, points[i].second, colour, fmt::format("{:.2f} ms", values[i]));
  }
}

void LoadChart::add_panel(const Panel& panel, double top) {
  double most = 0;
  for (const ServingRun& run : runs_) {
    const Spread& spread = run.figures.*panel.spread;
    most = std::max({most, spread.median, spread.p99});
  }
  most = most > 0 ? 1.05 * most : 1;
  picture_.text(kLeft, top - 10, panel.title);
  add_axes(top, most);
  add_series(panel, top, most, false);
  add_series(panel, top, most, true);
}

void LoadChart::add_legend() {
  const double y = 40, x = kLeft + kPlotWidth - 150;
  picture_.line(
      {.x1 = x, .y1 = y, .x2 = x + 24, .y2 = y, .colour = svg_colour(kMedianColour), .width = 2});
  picture_.text(x + 30, y + 4, "median");
  picture_.line({.x1 = x + 84,
                 .y1 = y,
                 .x2 = x + 108,
                 .y2 = y,
                 .colour = svg_colour(kP99Colour),
                 .width = 2,
                 .is_dashed = true});
  picture_.text(x + 114, y + 4, "p99");
}

std::string LoadChart::svg() {
  picture_.text(kLeft, 22, title_, SvgAnchor::kStart, 15);
  add_legend();
  for (size_t i = 0; i < std::size(kPanels); ++i) {
    add_panel(kPanels[i], kTop + static_cast<double>(i) * (kPanelHeight + kPanelGap));
  }
  picture_.text(kLeft + kPlotWidth / 2, kHeight + 40,
                sweeps_concurrency() ? "requests at once" : "requests sent a second",
                SvgAnchor::kMiddle);
  return picture_.svg();
}

}  // namespace

std::string serving_svg(const ServingFacts& facts, const std::vector<ServingRun>& runs) {
  return LoadChart(facts, runs).svg();
}

}  // namespace colibri
