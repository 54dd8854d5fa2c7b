#include "topology/machine_layout.h"

#include <algorithm>
#include <utility>

namespace colibri {
namespace {

constexpr double kColumn = 82;  // of a GPU or a NIC
constexpr double kRow = 88, kSharedRow = 74, kFirstRow = 50;
constexpr double kGap = 14;  // between packages
constexpr double kLeast = 300;

class LayoutMaker {
 public:
  LayoutMaker(const Cluster& cluster, const std::vector<Above>& above, const NodeGroup& group)
      : cluster_(cluster), above_(above), group_(group) {
    for (const int part : group.parts) sort_in(part);
    for (const int link : group.links) note_link(cluster.links[index(link)]);
  }

  NodeLayout make() {
    double used = kGap;
    for (const auto& [number, package] : packages_) used += width_of(package) + kGap;
    layout_.width = std::max(used, kLeast);
    layout_.frame_height = frame_height();
    layout_.height = layout_.frame_height + kSharedRow * static_cast<double>(shared_.size()) + 26;
    double x = kGap + (layout_.width - used) / 2;
    const double bars = kRow * static_cast<double>(own_bars_.size());
    for (auto& [number, package] : packages_) {
      place_package(package, x);
      layout_.packages.push_back(
          {number, x, 26, width_of(package), layout_.frame_height - bars - pairs_height() - 34});
      x += width_of(package) + kGap;
    }
    place_bars();
    return std::move(layout_);
  }

 private:
  struct Package {
    std::vector<int> cpus, switches, low;
  };

  static size_t index(int i) { return static_cast<size_t>(i); }
  const ClusterPart& part(int i) const { return cluster_.parts[index(i)]; }

  void sort_in(int i) {
    Package* package = nullptr;
    const PartKind kind = part(i).kind;
    const bool is_bar = kind == PartKind::kNvSwitch || kind == PartKind::kFabric;
    if (is_bar) {
      own_bars_.push_back(i);
      return;
    }
    package = &packages_[part(i).package];
    if (kind == PartKind::kCpu) {
      package->cpus.push_back(i);
    } else if (kind == PartKind::kPcieSwitch) {
      package->switches.push_back(i);
      num_switch_rows_ = std::max(num_switch_rows_, switch_depth(i));
    } else {
      package->low.push_back(i);
      has_low_ = true;
    }
  }

  void note_link(const ClusterLink& link) {
    for (const int end : {link.a, link.b}) {
      if (part(end).node < 0) shared_.insert(end);
    }
    if (part(link.a).kind == PartKind::kGpu && part(link.b).kind == PartKind::kGpu) ++num_pairs_;
  }

  // 1 for a switch at a CPU, 2 for one behind it, ...
  int switch_depth(int i) const {
    int depth = 1;
    for (int at = above_[index(i)].part; at >= 0 && part(at).kind == PartKind::kPcieSwitch;
         at = above_[index(at)].part) {
      ++depth;
    }
    return depth;
  }

  // Many CPUs without devices are drawn narrow.
  static double cpu_width(const Package& p) { return p.cpus.size() > 4 ? kPartWidth : kCpuWidth; }
  static double width_of(const Package& p) {
    const double low = kColumn * static_cast<double>(p.low.size());
    return std::max(low, (cpu_width(p) + 40) * static_cast<double>(p.cpus.size()));
  }

  static double row_y(int row) { return kFirstRow + kRow * row; }
  int low_row() const { return num_switch_rows_ + 1; }
  double pairs_height() const { return num_pairs_ == 0 ? 0 : pair_line_drop(num_pairs_); }
  double frame_height() const {
    double height = kFirstRow + kPartHeight + 20;
    if (has_low_) height += kRow * low_row() + pairs_height();
    return height + kRow * static_cast<double>(own_bars_.size());
  }

  void place_package(Package& p, double x) {
    const double width = width_of(p);
    std::stable_sort(p.low.begin(), p.low.end(),
                     [this](int a, int b) { return chain(a) < chain(b); });
    const double start = x + (width - kColumn * static_cast<double>(p.low.size())) / 2;
    for (size_t i = 0; i < p.low.size(); ++i) {
      layout_.spots[p.low[i]] = {
          start + kColumn * static_cast<double>(i) + (kColumn - kPartWidth) / 2, row_y(low_row()),
          kPartWidth};
    }
    // From the lowest: each over the middle of what hangs on it.
    for (auto it = p.switches.rbegin(); it != p.switches.rend(); ++it) {
      const double centre = middle_of(*it, p, x + width / 2);
      layout_.spots[*it] = {centre - kPartWidth / 2, row_y(switch_depth(*it)), kPartWidth};
    }
    const double each = width / static_cast<double>(std::max<size_t>(1, p.cpus.size()));
    for (size_t i = 0; i < p.cpus.size(); ++i) {
      const double even = x + each * (static_cast<double>(i) + 0.5);
      const double centre = p.cpus.size() == 1 ? middle_of(p.cpus[i], p, even) : even;
      layout_.spots[p.cpus[i]] = {centre - cpu_width(p) / 2, row_y(0), cpu_width(p)};
    }
  }

  // Numbers of the parts above, from the CPU down, so that what hangs together stands together.
  std::vector<int> chain(int i) const {
    std::vector<int> parts;
    for (int at = above_[index(i)].part; at >= 0; at = above_[index(at)].part) parts.push_back(at);
    std::reverse(parts.begin(), parts.end());
    return parts;
  }

  double middle_of(int upper, const Package& p, double otherwise) const {
    double sum = 0;
    int count = 0;
    for (const std::vector<int>* parts : {&p.low, &p.switches}) {
      for (const int child : *parts) {
        const auto spot = layout_.spots.find(child);
        if (above_[index(child)].part != upper || spot == layout_.spots.end()) continue;
        sum += spot->second.centre();
        ++count;
      }
    }
    return count > 0 ? sum / count : otherwise;
  }

  void place_bars() {
    double y = row_y(has_low_ ? low_row() : 0) + pairs_height();
    for (const int bar : own_bars_) place_bar(bar, y += kRow);
    y = layout_.frame_height + 44;
    for (const int bar : shared_) {
      place_bar(bar, y);
      y += kSharedRow;
    }
  }

  // As wide as what hangs on it.
  void place_bar(int bar, double y) {
    double first = layout_.width, last = 0;
    for (const int i : group_.links) {
      const ClusterLink& link = cluster_.links[index(i)];
      if (link.a != bar && link.b != bar) continue;
      const auto end = layout_.spots.find(link.a == bar ? link.b : link.a);
      if (end == layout_.spots.end()) continue;
      first = std::min(first, end->second.x);
      last = std::max(last, end->second.right());
    }
    layout_.bars.insert(bar);
    layout_.spots[bar] = first < last ? PartSpot{first, y, std::max(last - first, kCpuWidth)}
                                      : PartSpot{kGap, y, layout_.width - 2 * kGap};
  }

  const Cluster& cluster_;
  const std::vector<Above>& above_;
  const NodeGroup& group_;
  std::map<int, Package> packages_;
  std::vector<int> own_bars_;
  std::set<int> shared_;
  int num_switch_rows_ = 0, num_pairs_ = 0;
  bool has_low_ = false;
  NodeLayout layout_;
};

}  // namespace

NodeLayout node_layout(const Cluster& cluster, const std::vector<Above>& above,
                       const NodeGroup& group) {
  return LayoutMaker(cluster, above, group).make();
}

double pair_line_drop(int which) { return 18.0 + 16.0 * which; }

}  // namespace colibri
