#include <algorithm>
#include <limits>
#include <utility>

#include "topology/cluster.h"

namespace colibri {
namespace {

constexpr double kMessageBytes = 65536;

// What a way costs: time, then links; ties go to the part with the lower number.
using Cost = std::pair<double, int>;
constexpr Cost kFar{std::numeric_limits<double>::infinity(), 0};

struct Step {
  int link = -1, from = -1;
};

// A GPU's memory is no way station; NICs lie on no shortest way inside a node, being leaves there.
bool hands_on(const Cluster& cluster, int part) {
  return cluster.parts[static_cast<size_t>(part)].kind != PartKind::kGpu;
}

class Search {
 public:
  explicit Search(const Cluster& cluster) : cluster_(cluster), links_of_(cluster.parts.size()) {
    for (size_t i = 0; i < cluster.links.size(); ++i) {
      links_of_[static_cast<size_t>(cluster.links[i].a)].push_back(static_cast<int>(i));
      links_of_[static_cast<size_t>(cluster.links[i].b)].push_back(static_cast<int>(i));
    }
  }

  // Dijkstra's method, by linear search: machines have few parts.
  void run(int source) {
    const size_t n = links_of_.size();
    cost_.assign(n, kFar);
    step_.assign(n, {});
    std::vector<bool> is_done(n);
    cost_[static_cast<size_t>(source)] = {0, 0};
    for (;;) {
      size_t next = n;
      for (size_t i = 0; i < n; ++i) {
        if (!is_done[i] && cost_[i] != kFar && (next == n || cost_[i] < cost_[next])) next = i;
      }
      if (next == n) return;
      is_done[next] = true;
      if (static_cast<int>(next) == source || hands_on(cluster_, static_cast<int>(next))) {
        widen(next);
      }
    }
  }

  std::vector<LinkUse> way_to(int target) const {
    std::vector<LinkUse> way;
    for (Step step = step_[static_cast<size_t>(target)]; step.link >= 0;
         step = step_[static_cast<size_t>(step.from)]) {
      const bool forward = cluster_.links[static_cast<size_t>(step.link)].a == step.from;
      way.push_back({step.link, forward});
    }
    std::reverse(way.begin(), way.end());
    return way;
  }

 private:
  void widen(size_t from) {
    for (const int link_idx : links_of_[from]) {
      const ClusterLink& link = cluster_.links[static_cast<size_t>(link_idx)];
      const int to = link.a == static_cast<int>(from) ? link.b : link.a;
      const Cost cost{cost_[from].first + link.latency_us + kMessageBytes / (link.gbps * 1e3),
                      cost_[from].second + 1};
      if (!(cost < cost_[static_cast<size_t>(to)])) continue;
      cost_[static_cast<size_t>(to)] = cost;
      step_[static_cast<size_t>(to)] = {link_idx, static_cast<int>(from)};
    }
  }

  const Cluster& cluster_;
  std::vector<std::vector<int>> links_of_;
  std::vector<Cost> cost_;
  std::vector<Step> step_;
};

}  // namespace

ClusterRoutes::ClusterRoutes(const Cluster& cluster, std::span<const int> parts)
    : num_parts_(parts.size()) {
  Search search(cluster);
  for (const int from : parts) {
    search.run(from);
    for (const int to : parts) {
      routes_.push_back(search.way_to(to));
      double latency = 0;
      for (const LinkUse& use : routes_.back()) {
        latency += cluster.links[static_cast<size_t>(use.link)].latency_us;
      }
      latency_us_.push_back(latency);
    }
  }
}

std::span<const LinkUse> ClusterRoutes::between(size_t from, size_t to) const {
  return routes_.at(from * num_parts_ + to);
}

double ClusterRoutes::latency_us(size_t from, size_t to) const {
  return latency_us_.at(from * num_parts_ + to);
}

}  // namespace colibri
