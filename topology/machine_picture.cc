#include "topology/machine_picture.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/units.h"
#include "topology/node_groups.h"
#include "topology/svg.h"

namespace colibri {
namespace {

// Rows from top to bottom: network, packages, switches, GPUs and NICs, NVLink's switch.
constexpr double kMargin = 16, kHead = 44, kBox = 66, kStep = 82, kBoxHeight = 40, kRowStep = 92;

std::string short_name(const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

std::string gbps(const ClusterLink& link) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", link.gbps);
  return text;
}

const char* fill_of(PartKind kind) {
  switch (kind) {
    case PartKind::kCpu:
      return "#dbe9f6";
    case PartKind::kGpu:
      return "#d9f0e3";
    case PartKind::kPcieSwitch:
      return "#eeeeee";
    case PartKind::kNvSwitch:
      return "#fde7c8";
    case PartKind::kNic:
      return "#f3dcea";
    case PartKind::kFabric:
      return "#fff6cc";
  }
  return "#fff";
}

struct Spot {
  double x = 0, y = 0, width = kBox;
  double centre() const { return x + width / 2; }
};

class Picture {
 public:
  explicit Picture(const Cluster& cluster) : cluster_(cluster), groups_(node_groups(cluster)) {
    for (const NodeGroup& group : groups_) widest_ = std::max(widest_, width_of(group));
  }

  std::string svg() {
    const double width = std::max(widest_ + 2 * kMargin, 520.0);
    double top = kHead;
    const bool has_fabric = !cluster_.parts_of(PartKind::kFabric).empty();
    if (has_fabric) top += kBoxHeight + 26;
    const double node_height = 4 * kRowStep + 40;
    SvgPicture picture(width, top + node_height * static_cast<double>(groups_.size()) + 12,
                       cluster_.name);
    picture.text(kMargin, 22, cluster_.name + ": GB/s of each link in one direction",
                 SvgAnchor::kStart, 15);
    if (has_fabric) place_fabric(width);
    for (const NodeGroup& group : groups_) {
      frame(picture, group, top, width, node_height);
      place(group, top + 26, width);
      top += node_height;
    }
    draw_links(picture);
    draw_parts(picture);
    return picture.svg();
  }

 private:
  std::vector<int> of_kind(const NodeGroup& group, PartKind kind) const {
    std::vector<int> parts;
    for (const int part : group.parts) {
      if (cluster_.parts[static_cast<size_t>(part)].kind == kind) parts.push_back(part);
    }
    return parts;
  }

  // GPUs and NICs side by side, each beneath what it hangs on.
  std::vector<int> lowest(const NodeGroup& group) const {
    std::vector<int> parts = of_kind(group, PartKind::kGpu);
    const std::vector<int> nics = of_kind(group, PartKind::kNic);
    parts.insert(parts.end(), nics.begin(), nics.end());
    const auto root = [this](int part) {
      Above above = part_above(cluster_, part);
      const int first = above.part;
      while (above.part >= 0 && part_above(cluster_, above.part).part >= 0) {
        above = part_above(cluster_, above.part);
      }
      return std::pair{above.part, first};
    };
    std::stable_sort(parts.begin(), parts.end(), [&](int a, int b) { return root(a) < root(b); });
    return parts;
  }

  double width_of(const NodeGroup& group) const {
    const size_t across =
        std::max({lowest(group).size(), 2 * of_kind(group, PartKind::kCpu).size(), size_t{1}});
    return kStep * static_cast<double>(across);
  }

  void place_fabric(double width) {
    for (const int part : cluster_.parts_of(PartKind::kFabric)) {
      spots_[part] = {kMargin, kHead - 8, width - 2 * kMargin};
    }
  }

  void frame(SvgPicture& picture, const NodeGroup& group, double top, double width,
             double height) const {
    picture.box({.x = kMargin / 2,
                 .y = top,
                 .width = width - kMargin,
                 .height = height - 12,
                 .fill = "#fcfcfc",
                 .stroke = "#bbb",
                 .radius = 6});
    std::string title = "node " + std::to_string(group.nodes[0]);
    if (group.nodes.size() > 1) {
      title += ", one of " + std::to_string(group.nodes.size()) + " alike";
    }
    picture.text(kMargin, top + 16, title);
  }

  void place(const NodeGroup& group, double top, double width) {
    const std::vector<int> low = lowest(group);
    const double left = (width - kStep * static_cast<double>(std::max<size_t>(1, low.size()))) / 2;
    for (size_t i = 0; i < low.size(); ++i) {
      spots_[low[i]] = {left + kStep * static_cast<double>(i) + (kStep - kBox) / 2,
                        top + 2 * kRowStep, kBox};
    }
    place_above(of_kind(group, PartKind::kPcieSwitch), top + kRowStep, width);
    place_above(of_kind(group, PartKind::kCpu), top, width);
    for (const int part : of_kind(group, PartKind::kNvSwitch)) {
      spots_[part] = {width * 0.2, top + 3 * kRowStep, width * 0.6};
    }
    for (const int part : cluster_.parts_of(PartKind::kNvSwitch)) {
      const bool is_rack = cluster_.parts[static_cast<size_t>(part)].node < 0;
      if (is_rack) spots_.try_emplace(part, Spot{width * 0.2, top + 3 * kRowStep, width * 0.6});
    }
  }

  // Over the middle of what hangs on each; evenly where nothing does.
  void place_above(const std::vector<int>& parts, double y, double width) {
    for (size_t i = 0; i < parts.size(); ++i) {
      double sum = 0;
      int count = 0;
      for (const auto& [child, spot] : spots_) {
        if (part_above(cluster_, child).part != parts[i]) continue;
        sum += spot.centre();
        ++count;
      }
      const double each = (width - 2 * kMargin) / static_cast<double>(parts.size());
      const double centre =
          count > 0 ? sum / count : kMargin + each * (static_cast<double>(i) + 0.5);
      const double box =
          cluster_.parts[static_cast<size_t>(parts[i])].kind == PartKind::kCpu ? 1.7 * kBox : kBox;
      spots_[parts[i]] = {centre - box / 2, y, box};
    }
  }

  void draw_links(SvgPicture& picture) const {
    for (const ClusterLink& link : cluster_.links) {
      const auto a = spots_.find(link.a), b = spots_.find(link.b);
      if (a == spots_.end() || b == spots_.end()) continue;
      const bool a_is_upper = a->second.y <= b->second.y;
      draw_link(picture, link, a_is_upper ? a->second : b->second,
                a_is_upper ? b->second : a->second);
    }
  }

  void draw_link(SvgPicture& picture, const ClusterLink& link, const Spot& upper,
                 const Spot& lower) const {
    const std::string hover = cluster_.parts[static_cast<size_t>(link.a)].name + " - " +
                              cluster_.parts[static_cast<size_t>(link.b)].name + ": " + link.kind +
                              ", " + gbps(link) + " GB/s";
    const double thick = std::clamp(link.gbps / 40, 1.0, 6.0);
    if (upper.y == lower.y) {  // side by side
      const Spot &left = upper.x < lower.x ? upper : lower,
                 &right = upper.x < lower.x ? lower : upper;
      const double y = upper.y + kBoxHeight / 2;
      picture.line({.x1 = left.x + left.width,
                    .y1 = y,
                    .x2 = right.x,
                    .y2 = y,
                    .colour = "#888",
                    .width = thick,
                    .hover = hover});
      picture.text((left.x + left.width + right.x) / 2, y - 5, gbps(link), SvgAnchor::kMiddle, 11);
      return;
    }
    // Straight down from a wide box, else between the middles.
    const bool is_wide_above = upper.width > 2 * kBox, is_wide_below = lower.width > 2 * kBox;
    const double x1 =
        is_wide_above ? std::clamp(lower.centre(), upper.x, upper.x + upper.width) : upper.centre();
    const double x2 =
        is_wide_below ? std::clamp(upper.centre(), lower.x, lower.x + lower.width) : lower.centre();
    const double y1 = upper.y + kBoxHeight, y2 = lower.y;
    picture.line(
        {.x1 = x1, .y1 = y1, .x2 = x2, .y2 = y2, .colour = "#888", .width = thick, .hover = hover});
    picture.text((x1 + x2) / 2 + 5, (y1 + y2) / 2 + 4, gbps(link), SvgAnchor::kStart, 11);
  }

  void draw_parts(SvgPicture& picture) const {
    for (const auto& [part, spot] : spots_) {
      const ClusterPart& p = cluster_.parts[static_cast<size_t>(part)];
      std::string hover = p.name, second;
      if (p.device >= 0) {
        const DeviceSpec& device = cluster_.device_of(part);
        second = device.name;
        const int64_t bytes = p.kind == PartKind::kGpu ? device.memory_bytes : p.memory_bytes;
        hover += ", " + device.name + ", " + format_bytes(bytes);
        if (p.kind == PartKind::kCpu) second = std::to_string(p.num_cores) + " cores";
      }
      if (!p.address.empty()) hover += ", " + p.address;
      picture.box({.x = spot.x,
                   .y = spot.y,
                   .width = spot.width,
                   .height = kBoxHeight,
                   .fill = fill_of(p.kind),
                   .stroke = "#555",
                   .hover = hover,
                   .radius = 4});
      const double y = spot.y + (second.empty() ? 24 : 17);
      picture.text(spot.centre(), y, short_name(p.name), SvgAnchor::kMiddle);
      if (!second.empty()) picture.text(spot.centre(), y + 15, second, SvgAnchor::kMiddle, 11);
    }
  }

  const Cluster& cluster_;
  std::vector<NodeGroup> groups_;
  double widest_ = 0;
  std::map<int, Spot> spots_;
};

}  // namespace

std::string cluster_svg(const Cluster& cluster) { return Picture(cluster).svg(); }

}  // namespace colibri
