#include "topology/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace colibri {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// name="value", with the space before it.
std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + svg_escaped(value) + "\"";
}
std::string attribute(const char* name, double value) { return attribute(name, number(value)); }

std::string closed(const char* tag, const std::string& hover) {
  if (hover.empty()) return "/>\n";
  return "><title>" + svg_escaped(hover) + "</title></" + tag + ">\n";
}

const char* to_string(SvgAnchor anchor) {
  switch (anchor) {
    case SvgAnchor::kStart:
      return "start";
    case SvgAnchor::kMiddle:
      return "middle";
    case SvgAnchor::kEnd:
      return "end";
  }
  return "start";
}

}  // namespace

std::string svg_escaped(std::string_view text) {
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
        safe += static_cast<unsigned char>(c) < ' ' && c != '\n' ? ' ' : c;
    }
  }
  return safe;
}

std::string svg_colour(size_t which) {
  constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#56b4e9", "#e69f00", "#444444", "#a89c00"};
  return kColours[which % kColours.size()];
}

std::string svg_heat_colour(double share) {
  const double at = std::clamp(share, 0.0, 1.0);
  const auto mix = [at](int pale, int dark) {
    return static_cast<int>(std::lround(pale + at * (dark - pale)));
  };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mix(0xf4, 0x08), mix(0xf8, 0x30),
                mix(0xfc, 0x6b));
  return text;
}

double svg_tick_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * 5 >= most) return factor * power;
  }
  return 10 * power;
}

SvgPicture::SvgPicture(double width, double height, std::string title)
    : width_(width), height_(height), title_(std::move(title)) {}

void SvgPicture::box(const SvgBox& box) {
  body_ += "<rect" + attribute("x", box.x) + attribute("y", box.y) + attribute("width", box.width) +
           attribute("height", box.height) + attribute("fill", box.fill) +
           attribute("stroke", box.stroke);
  if (box.radius > 0) body_ += attribute("rx", box.radius);
  body_ += closed("rect", box.hover);
}

void SvgPicture::line(const SvgLine& line) {
  body_ += "<line" + attribute("x1", line.x1) + attribute("y1", line.y1) +
           attribute("x2", line.x2) + attribute("y2", line.y2) + attribute("stroke", line.colour) +
           attribute("stroke-width", line.width);
  if (line.is_dashed) body_ += attribute("stroke-dasharray", std::string("6 3"));
  body_ += closed("line", line.hover);
}

void SvgPicture::polyline(const std::vector<std::pair<double, double>>& points,
                          const std::string& colour, bool is_dashed) {
  std::string list;
  for (const auto& [x, y] : points) {
    list += (list.empty() ? "" : " ") + number(x) + "," + number(y);
  }
  body_ += "<polyline" + attribute("points", list) + attribute("stroke", colour) +
           attribute("fill", std::string("none")) + attribute("stroke-width", 2);
  if (is_dashed) body_ += attribute("stroke-dasharray", std::string("6 3"));
  body_ += "/>\n";
}

void SvgPicture::dot(double x, double y, const std::string& colour, const std::string& hover) {
  body_ += "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", 3.5) +
           attribute("fill", colour) + closed("circle", hover);
}

void SvgPicture::text(double x, double y, const std::string& words, SvgAnchor anchor, double size) {
  body_ += "<text" + attribute("x", x) + attribute("y", y) +
           attribute("text-anchor", std::string(to_string(anchor))) + attribute("font-size", size) +
           ">" + svg_escaped(words) + "</text>\n";
}

std::string SvgPicture::svg() const {
  const std::string width = number(width_), height = number(height_);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
         "\" viewBox=\"0 0 " + width + " " + height +
         "\" font-family=\"sans-serif\" fill=\"#222\">\n<title>" + svg_escaped(title_) +
         "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" + body_ + "</svg>\n";
}

}  // namespace colibri
