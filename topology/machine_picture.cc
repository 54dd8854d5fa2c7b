#include "topology/machine_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/units.h"
#include "topology/machine_layout.h"
#include "topology/svg.h"

namespace colibri {
namespace {

constexpr double kMargin = 18, kLegendColumn = 190;
constexpr double kCharWidth = 6.4;  // of the small letters
constexpr const char* kNodeGround = "#fcfcfc";
constexpr const char* kPackageGround = "#f3f7fb";

std::string short_name(const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

std::string gbps_text(double gbps) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", gbps);
  return text;
}

const char* fill_of(PartKind kind) {
  switch (kind) {
    case PartKind::kCpu:
      return "#dbe9f6";
    case PartKind::kGpu:
      return "#d9f0e3";
    case PartKind::kPcieSwitch:
      return "#ececec";
    case PartKind::kNvSwitch:
      return "#fde7c8";
    case PartKind::kNic:
      return "#f3dcea";
    case PartKind::kFabric:
      return "#fff6cc";
  }
  return "#fff";
}

const char* colour_of(const ClusterLink& link) {
  const auto starts_with = [&](std::string_view start) { return link.kind.rfind(start, 0) == 0; };
  if (starts_with("nvlink")) return "#009e73";
  if (starts_with("pcie")) return "#777777";
  if (starts_with("ib") || starts_with("network")) return "#cc79a7";
  return "#0072b2";
}

// Rates differ by a hundred: each factor of two is a step.
double thickness(double gbps) { return std::clamp(0.7 * std::log2(gbps / 6), 1.0, 5.0); }

// One node that stands for all that are like it.
class NodePicture {
 public:
  NodePicture(const Cluster& cluster, const std::vector<Above>& above, const NodeGroup& group)
      : cluster_(cluster), group_(group), layout_(node_layout(cluster, above, group)) {}

  double width() const { return layout_.width; }
  double height() const { return layout_.height; }

  void draw(SvgPicture& picture, double left, double top) {
    left_ = left;
    top_ = top;
    for (auto& [part, spot] : layout_.spots) {
      spot.x += left;
      spot.y += top;
    }
    draw_frames(picture);
    for (const int bar : layout_.bars) draw_part(picture, bar, layout_.spots.at(bar));
    for (const int link : group_.links) draw_link(picture, cluster_.links[index(link)]);
    draw_rates_below(picture);
    for (const auto& [part, spot] : layout_.spots) {
      if (!layout_.bars.contains(part)) draw_part(picture, part, spot);
    }
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }
  const ClusterPart& part(int i) const { return cluster_.parts[index(i)]; }

  void draw_frames(SvgPicture& picture) const {
    const size_t count = group_.nodes.size();
    for (int behind = count > 1 ? 2 : 0; behind >= 0; --behind) {
      picture.box({.x = left_ + 5.0 * behind,
                   .y = top_ + 5.0 * behind,
                   .width = layout_.width,
                   .height = layout_.frame_height,
                   .fill = kNodeGround,
                   .stroke = "#bbb",
                   .radius = 6});
    }
    std::string title = "node " + std::to_string(group_.nodes[0]);
    if (count > 1) title += ", one of " + std::to_string(count) + " alike";
    picture.text(left_ + 10, top_ + 17, title);
    for (const PackageFrame& frame : layout_.packages) {
      if (frame.package < 0) continue;
      picture.box({.x = left_ + frame.x,
                   .y = top_ + frame.y,
                   .width = frame.width,
                   .height = frame.height,
                   .fill = kPackageGround,
                   .stroke = "#c9d6e2",
                   .radius = 5});
      picture.text(left_ + frame.x + 6, top_ + frame.y + 14,
                   "package " + std::to_string(frame.package), SvgAnchor::kStart, 11);
    }
  }

  void draw_part(SvgPicture& picture, int i, const PartSpot& spot) const {
    const ClusterPart& p = part(i);
    std::string hover = p.name, second;
    if (p.device >= 0) {
      const DeviceSpec& device = cluster_.device_of(i);
      const bool is_cpu = p.kind == PartKind::kCpu;
      const std::string memory = format_bytes(is_cpu ? p.memory_bytes : device.memory_bytes);
      second = is_cpu ? std::to_string(p.num_cores) + " cores" : device.name;
      if (is_cpu && spot.width >= kCpuWidth) second += ", " + memory;
      hover += ", " + device.name + ", " + memory + " at " + gbps_text(device.peak_gbps) + " GB/s";
    } else if (p.kind == PartKind::kNic && p.address.find(':') == std::string::npos) {
      second = p.address;
    }
    if (!p.address.empty()) hover += ", " + p.address;
    const auto room = static_cast<size_t>(spot.width / kCharWidth);
    if (second.size() > room) second.resize(room);
    picture.box({.x = spot.x,
                 .y = spot.y,
                 .width = spot.width,
                 .height = kPartHeight,
                 .fill = fill_of(p.kind),
                 .stroke = "#555",
                 .hover = hover,
                 .radius = 4});
    const std::string name = p.node < 0 ? p.name : short_name(p.name);
    if (layout_.bars.contains(i)) {  // on the left, where no wire passes over it
      picture.text(spot.x + 10, spot.y + 24, name);
      return;
    }
    picture.text(spot.centre(), spot.y + (second.empty() ? 24 : 17), name, SvgAnchor::kMiddle);
    if (!second.empty()) {
      picture.text(spot.centre(), spot.y + 32, second, SvgAnchor::kMiddle, 11);
    }
  }

  // On a patch of the ground, so that no line runs through it.
  static void rate(SvgPicture& picture, double x, double y, const std::string& words,
                   const std::string& ground) {
    const double width = kCharWidth * static_cast<double>(words.size()) + 4;
    picture.box({.x = x - width / 2,
                 .y = y - 7,
                 .width = width,
                 .height = 14,
                 .fill = ground,
                 .stroke = "none"});
    picture.text(x, y + 4, words, SvgAnchor::kMiddle, 11);
  }

  void line(SvgPicture& picture, const ClusterLink& link, const std::array<double, 4>& ends) const {
    picture.line({.x1 = ends[0],
                  .y1 = ends[1],
                  .x2 = ends[2],
                  .y2 = ends[3],
                  .colour = colour_of(link),
                  .width = thickness(link.gbps),
                  .hover = part(link.a).name + " - " + part(link.b).name + ": " + link.kind + ", " +
                           gbps_text(link.gbps) + " GB/s"});
  }

  void draw_link(SvgPicture& picture, const ClusterLink& link) {
    const auto a = layout_.spots.find(link.a), b = layout_.spots.find(link.b);
    if (a == layout_.spots.end() || b == layout_.spots.end()) return;
    const bool a_is_first =
        std::pair(a->second.y, a->second.x) < std::pair(b->second.y, b->second.x);
    const PartSpot& first = a_is_first ? a->second : b->second;
    const PartSpot& second = a_is_first ? b->second : a->second;
    const bool is_pair = part(link.a).kind == PartKind::kGpu && part(link.b).kind == PartKind::kGpu;
    if (is_pair) return draw_pair(picture, link, first, second);
    if (first.y == second.y) return draw_beside(picture, link, first, second);
    if (!layout_.bars.contains(link.a) && !layout_.bars.contains(link.b)) {
      line(picture, link, {first.centre(), first.bottom(), second.centre(), second.y});
      rates_below_[a_is_first ? link.a : link.b].push_back(link.gbps);
      return;
    }
    line(picture, link, {first.centre(), first.bottom(), first.centre(), second.y});
    const bool is_outside = second.y > top_ + layout_.frame_height;
    rate(picture, first.centre(), second.y - (is_outside ? 18 : 22), gbps_text(link.gbps),
         is_outside ? "#ffffff" : kNodeGround);
  }

  // CPUs: a line past others would hide them.
  void draw_beside(SvgPicture& picture, const ClusterLink& link, const PartSpot& left,
                   const PartSpot& right) {
    for (const auto& [i, spot] : layout_.spots) {
      if (spot.y != left.y || spot.x <= left.x || spot.x >= right.x) continue;
      has_undrawn_ = true;
      return;
    }
    const double y = left.y + kPartHeight / 2;
    line(picture, link, {left.right(), y, right.x, y});
    rate(picture, (left.right() + right.x) / 2, y - 12, gbps_text(link.gbps), "none");
  }

  void draw_pair(SvgPicture& picture, const ClusterLink& link, const PartSpot& left,
                 const PartSpot& right) {
    const double y = left.bottom() + pair_line_drop(num_pairs_drawn_++);
    line(picture, link, {left.centre(), left.bottom(), left.centre(), y});
    line(picture, link, {left.centre(), y, right.centre(), y});
    line(picture, link, {right.centre(), right.bottom(), right.centre(), y});
    rate(picture, (left.centre() + right.centre()) / 2, y, gbps_text(link.gbps), kNodeGround);
  }

  void draw_rates_below(SvgPicture& picture) const {
    for (const auto& [upper, rates] : rates_below_) {
      const bool is_alike = std::count(rates.begin(), rates.end(), rates[0]) ==
                            static_cast<std::ptrdiff_t>(rates.size());
      std::string words = gbps_text(rates[0]);
      if (!is_alike) {
        for (size_t i = 1; i < rates.size(); ++i) words += ", " + gbps_text(rates[i]);
      } else if (rates.size() > 1) {
        words += " each";
      }
      const PartSpot& spot = layout_.spots.at(upper);
      rate(picture, spot.centre(), spot.bottom() + 18, words, kPackageGround);
    }
    if (has_undrawn_) {
      picture.text(left_ + layout_.width - 10, top_ + 17,
                   "links between CPUs that are not neighbours are not drawn", SvgAnchor::kEnd, 11);
    }
  }

  const Cluster& cluster_;
  const NodeGroup& group_;
  NodeLayout layout_;
  double left_ = 0, top_ = 0;
  int num_pairs_drawn_ = 0;
  bool has_undrawn_ = false;
  std::map<int, std::vector<double>> rates_below_;
};

// Kinds of links with colour and rates, in order of the alphabet.
struct LegendEntry {
  std::string words;
  const ClusterLink* link;
};

std::vector<LegendEntry> legend_of(const Cluster& cluster) {
  std::map<std::string, const ClusterLink*> kinds;
  for (const ClusterLink& link : cluster.links) {
    kinds.emplace(link.kind + " " + gbps_text(link.gbps) + " GB/s", &link);
  }
  std::vector<LegendEntry> entries;
  for (const auto& [words, link] : kinds) entries.push_back({words, link});
  return entries;
}

}  // namespace

std::string cluster_svg(const Cluster& cluster) {
  const std::vector<Above> above = parts_above(cluster);
  const std::vector<NodeGroup> groups = node_groups(cluster);
  std::vector<NodePicture> nodes;
  double width = 0, height = 40;
  for (const NodeGroup& group : groups) {
    nodes.emplace_back(cluster, above, group);
    width = std::max(width, nodes.back().width());
    height += nodes.back().height();
  }
  width += 2 * kMargin;
  const std::vector<LegendEntry> legend = legend_of(cluster);
  const auto num_across = static_cast<size_t>(std::max(1.0, (width - 2 * kMargin) / kLegendColumn));
  height += 18.0 * static_cast<double>((legend.size() + num_across - 1) / num_across) + 6;
  SvgPicture picture(width, height, cluster.name);
  picture.text(kMargin, 24, cluster.name + ": GB/s of each link in one direction",
               SvgAnchor::kStart, 15);
  double top = 40;
  for (NodePicture& node : nodes) {
    node.draw(picture, (width - node.width()) / 2, top);
    top += node.height();
  }
  for (size_t i = 0; i < legend.size(); ++i) {
    const double x = kMargin + kLegendColumn * static_cast<double>(i % num_across);
    const double y = top + 6 + 18 * static_cast<double>(i / num_across);
    picture.line({.x1 = x,
                  .y1 = y,
                  .x2 = x + 22,
                  .y2 = y,
                  .colour = colour_of(*legend[i].link),
                  .width = thickness(legend[i].link->gbps)});
    picture.text(x + 28, y + 4, legend[i].words, SvgAnchor::kStart, 11);
  }
  return picture.svg();
}

}  // namespace colibri
