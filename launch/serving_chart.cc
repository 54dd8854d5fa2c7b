// The picture of serving_report.h: three panels under each other that share the axis of loads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/serving_report.h"

namespace colibri {
namespace {

constexpr double kLeft = 76, kRight = 24, kTop = 64, kPanelHeight = 150, kPanelGap = 46;
constexpr double kPlotWidth = 520, kBottom = 52;
constexpr const char* kMedianColour = "#1f6fb2";
constexpr const char* kP99Colour = "#c8551b";

struct Panel {
  const char* title;
  Spread ServingFigures::*spread;
};
constexpr Panel kPanels[] = {{"time to first token, ms", &ServingFigures::ttft_ms},
                             {"time per output token, ms", &ServingFigures::tpot_ms},
                             {"end to end, ms", &ServingFigures::e2e_ms}};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return safe;
}

// The distance of ticks, 1, 2 or 5 times a power of ten, with at most five of them up to `most`.
double tick_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * 5 >= most) return factor * power;
  }
  return 10 * power;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string line_from(double x1, double y1, double x2, double y2, const char* colour) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
      y2, colour);
}

class Chart {
 public:
  Chart(const ServingFacts& facts, const std::vector<ServingRun>& runs)
      : facts_(facts), runs_(runs) {}

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

  const ServingFacts& facts_;
  const std::vector<ServingRun>& runs_;
  std::string body_;
};

void Chart::add_axes(double top, double most) {
  const double bottom = top + kPanelHeight;
  const double step = tick_step(most);
  for (int i = 0; i * step <= most * 1.0001; ++i) {
    const double y = bottom - kPanelHeight * (i * step) / most;
    body_ += line_from(kLeft, y, kLeft + kPlotWidth, y, i == 0 ? "#444" : "#ddd");
    body_ += text_at(kLeft - 8, y + 4, "end", fmt::format("{:g}", i * step));
  }
  body_ += line_from(kLeft, top, kLeft, bottom, "#444");
  for (size_t i = 0; i < runs_.size(); ++i) {
    body_ += line_from(x_of(i), bottom, x_of(i), bottom + 4, "#444");
    const std::string load = sweeps_concurrency() ? std::to_string(runs_[i].max_concurrency)
                                                  : rate_text(runs_[i].request_rate);
    body_ += text_at(x_of(i), bottom + 18, "middle", load);
  }
}

void Chart::add_series(const Panel& panel, double top, double most, bool is_median) {
  const char* const colour = is_median ? kMedianColour : kP99Colour;
  std::string points, dots;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Spread& spread = runs_[i].figures.*panel.spread;
    if (spread.count == 0) continue;
    const double value = is_median ? spread.median : spread.p99;
    const double y = top + kPanelHeight * (1 - value / most);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x_of(i), y);
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{:.2f} ms"
        "</title></circle>\n",
        x_of(i), y, colour, value);
  }
  body_ +=
      fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
                  points, colour, is_median ? "" : " stroke-dasharray=\"6 3\"");
  body_ += dots;
}

void Chart::add_panel(const Panel& panel, double top) {
  double most = 0;
  for (const ServingRun& run : runs_) {
    const Spread& spread = run.figures.*panel.spread;
    most = std::max({most, spread.median, spread.p99});
  }
  most = most > 0 ? 1.05 * most : 1;
  body_ += text_at(kLeft, top - 10, "start", panel.title);
  add_axes(top, most);
  add_series(panel, top, most, false);
  add_series(panel, top, most, true);
}

void Chart::add_legend() {
  const double y = 40, x = kLeft + kPlotWidth - 150;
  body_ += fmt::format(
      "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" "
      "stroke-width=\"2\"/>\n",
      x, y, x + 24, kMedianColour);
  body_ += text_at(x + 30, y + 4, "start", "median");
  body_ += fmt::format(
      "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" "
      "stroke-width=\"2\" stroke-dasharray=\"6 3\"/>\n",
      x + 84, y, x + 108, kP99Colour);
  body_ += text_at(x + 114, y + 4, "start", "p99");
}

std::string Chart::svg() {
  const double width = kLeft + kPlotWidth + kRight;
  const auto count = static_cast<double>(std::size(kPanels));
  const double bottom = kTop + count * kPanelHeight + (count - 1) * kPanelGap;
  body_ = fmt::format("<text x=\"{}\" y=\"22\" font-size=\"15\">{}</text>\n", kLeft,
                      escaped("Latency over load: " + facts_.model + ", " + facts_.endpoint));
  add_legend();
  for (size_t i = 0; i < std::size(kPanels); ++i) {
    add_panel(kPanels[i], kTop + static_cast<double>(i) * (kPanelHeight + kPanelGap));
  }
  body_ += text_at(kLeft + kPlotWidth / 2, bottom + 40, "middle",
                   sweeps_concurrency() ? "requests at once" : "requests sent a second");
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
             "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             width, bottom + kBottom) +
         body_ + "</svg>\n";
}

}  // namespace

std::string serving_svg(const ServingFacts& facts, const std::vector<ServingRun>& runs) {
  return Chart(facts, runs).svg();
}

}  // namespace colibri
