#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "topology/svg.h"

namespace colibri {
namespace {

constexpr double kLeft = 86, kTop = 46, kPlotWidth = 560, kPlotHeight = 320, kLegendWidth = 210;
constexpr double kLine = 18;  // of text

std::string short_number(double value) {
  char text[32];
  if (std::abs(value) >= 1e6) {
    std::snprintf(text, sizeof text, "%gM", value / 1e6);
  } else if (std::abs(value) >= 1e4) {
    std::snprintf(text, sizeof text, "%gk", value / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%g", value);
  }
  return text;
}

// From values to pixels along one side of the plot.
struct Axis {
  double low = 0, high = 1, begin = 0, length = 1;  // length < 0: upwards
  bool is_log = false;

  double at(double value) const {
    const double share =
        is_log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + length * share;
  }
  std::vector<double> ticks() const {
    std::vector<double> values;
    if (!is_log) {
      const double step = svg_tick_step(high - low);
      for (double v = std::ceil(low / step) * step; v <= high * 1.0001; v += step) {
        values.push_back(v);
      }
      return values;
    }
    const bool is_wide = high / low > 300;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (is_wide && factor != 1.0) continue;
        const double v = factor * power;
        if (v >= low * 0.9999 && v <= high * 1.0001) values.push_back(v);
      }
    }
    return values;
  }
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// A linear axis begins at 0; a logarithmic one has room on both sides.
Axis axis_over(const Range& range, bool is_log, double begin, double length) {
  Axis axis{.low = 0, .high = 1, .begin = begin, .length = length, .is_log = is_log};
  if (!(range.low <= range.high)) return axis;
  axis.low = is_log ? range.low / 1.15 : std::min(0.0, range.low);
  axis.high = is_log ? range.high * 1.15 : std::max(range.high * 1.05, axis.low + 1e-9);
  return axis;
}

bool can_draw(const Chart& chart, double x, double y) {
  return std::isfinite(x) && std::isfinite(y) && (!chart.has_log_x || x > 0) &&
         (!chart.has_log_y || y > 0);
}

void draw_axes(SvgPicture& picture, const Chart& chart, const Axis& x, const Axis& y) {
  const double bottom = kTop + kPlotHeight;
  for (const double v : y.ticks()) {
    picture.line(
        {.x1 = kLeft, .y1 = y.at(v), .x2 = kLeft + kPlotWidth, .y2 = y.at(v), .colour = "#ddd"});
    picture.text(kLeft - 8, y.at(v) + 4, short_number(v), SvgAnchor::kEnd);
  }
  for (const double v : x.ticks()) {
    picture.line({.x1 = x.at(v), .y1 = bottom, .x2 = x.at(v), .y2 = bottom + 5});
    picture.text(x.at(v), bottom + 20, short_number(v), SvgAnchor::kMiddle);
  }
  picture.line({.x1 = kLeft, .y1 = bottom, .x2 = kLeft + kPlotWidth, .y2 = bottom});
  picture.line({.x1 = kLeft, .y1 = kTop, .x2 = kLeft, .y2 = bottom});
  picture.text(kLeft + kPlotWidth / 2, bottom + 42, chart.x_label, SvgAnchor::kMiddle);
  picture.text(8, kTop - 12, chart.y_label);
}

void draw_curve(SvgPicture& picture, const Chart& chart, size_t which, const Axis& x,
                const Axis& y) {
  const ChartCurve& curve = chart.curves[which];
  const std::string colour = svg_colour(which);
  std::vector<std::pair<double, double>> points;
  for (const auto& [at, value] : curve.points) {
    if (can_draw(chart, at, value)) points.emplace_back(x.at(at), y.at(value));
  }
  picture.polyline(points, colour, curve.is_dashed);
  for (const auto& [at, value] : curve.points) {
    if (!can_draw(chart, at, value)) continue;
    picture.dot(x.at(at), y.at(value), colour,
                curve.name + ": " + chart.x_label + " " + short_number(at) + ", " + chart.y_label +
                    " " + short_number(value));
  }
  const double left = kLeft + kPlotWidth + 16;
  const double line = kTop + 10 + kLine * static_cast<double>(which);
  picture.line({.x1 = left,
                .y1 = line,
                .x2 = left + 24,
                .y2 = line,
                .colour = colour,
                .width = 2,
                .is_dashed = curve.is_dashed});
  picture.text(left + 30, line + 4, curve.name);
}

}  // namespace

std::string chart_svg(const Chart& chart) {
  Range xs, ys;
  for (const ChartCurve& curve : chart.curves) {
    for (const auto& [x, y] : curve.points) {
      if (!can_draw(chart, x, y)) continue;
      xs.add(x);
      ys.add(y);
    }
  }
  const Axis x = axis_over(xs, chart.has_log_x, kLeft, kPlotWidth);
  const Axis y = axis_over(ys, chart.has_log_y, kTop + kPlotHeight, -kPlotHeight);
  const double legend = kTop + kLine * static_cast<double>(chart.curves.size());
  const double below = std::max(kTop + kPlotHeight + 66, legend + 20);
  SvgPicture picture(kLeft + kPlotWidth + kLegendWidth,
                     below + kLine * static_cast<double>(chart.notes.size()), chart.title);
  picture.text(8, 18, chart.title, SvgAnchor::kStart, 15);
  draw_axes(picture, chart, x, y);
  for (size_t i = 0; i < chart.curves.size(); ++i) draw_curve(picture, chart, i, x, y);
  for (size_t i = 0; i < chart.notes.size(); ++i) {
    picture.text(8, below + kLine * static_cast<double>(i), chart.notes[i]);
  }
  return picture.svg();
}

}  // namespace colibri
