// Pictures as SVG text that a browser opens by itself: shapes with a text on hover, axes, colours
// that the colour blind tell apart. Coordinates are pixels, y downwards.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colibri {

// &, <, >, quotes and control characters as XML wants them.
std::string svg_escaped(std::string_view text);

// Eight colours that differ for the colour blind and in grey (Okabe and Ito's), then again.
std::string svg_colour(size_t which);

// From pale to dark in one hue as `share` goes from 0 to 1: lightness alone tells the order.
std::string svg_heat_colour(double share);

// The distance of ticks, 1, 2 or 5 times a power of ten, with at most five of them up to `most` >
// 0.
double svg_tick_step(double most);

enum class SvgAnchor { kStart, kMiddle, kEnd };

struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
  std::string fill = "none", stroke = "#444";
  std::string hover = {};  // shown while the pointer is on it; empty: nothing
  double radius = 0;       // of the corners
};

struct SvgLine {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  std::string colour = "#444";
  double width = 1;
  bool is_dashed = false;
  std::string hover = {};
};

// Things are drawn in the order of the calls.
class SvgPicture {
 public:
  SvgPicture(double width, double height, std::string title);

  void box(const SvgBox& box);
  void line(const SvgLine& line);
  void polyline(const std::vector<std::pair<double, double>>& points, const std::string& colour,
                bool is_dashed = false);
  void dot(double x, double y, const std::string& colour, const std::string& hover);
  void text(double x, double y, const std::string& words, SvgAnchor anchor = SvgAnchor::kStart,
            double size = 12);

  std::string svg() const;

 private:
  double width_, height_;
  std::string title_, body_;
};

// A chart of curves: values over a sweep.
struct ChartCurve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
  bool is_dashed = false;
};
struct Chart {
  std::string title = {}, x_label = {}, y_label = {};
  bool has_log_x = false, has_log_y = false;
  std::vector<ChartCurve> curves = {};
  std::vector<std::string> notes = {};  // lines under it
};
std::string chart_svg(const Chart& chart);

}  // namespace colibri
