#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
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

  // Dijkstra's method.
  void run(int source) {
    const size_t n = links_of_.size();
    cost_.assign(n, kFar);
    step_.assign(n, {});
    std::vector<bool> is_done(n);
    cost_[static_cast<size_t>(source)] = {0, 0};
    open_.emplace(cost_[static_cast<size_t>(source)], source);
    while (!open_.empty()) {
      const int next = open_.top().second;
      open_.pop();
      if (is_done[static_cast<size_t>(next)]) continue;
      is_done[static_cast<size_t>(next)] = true;
      if (next == source || hands_on(cluster_, next)) widen(static_cast<size_t>(next));
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
      open_.emplace(cost, to);
    }
  }

  const Cluster& cluster_;
  std::vector<std::vector<int>> links_of_;
  std::vector<Cost> cost_;
  std::vector<Step> step_;
  // The nearest first, of equals the lower part.
  std::priority_queue<std::pair<Cost, int>, std::vector<std::pair<Cost, int>>, std::greater<>>
      open_;
};

// NICs that hang at the same parts by the same links are as good as each other; the search always
// takes the first. This gives each end of a node another one, in the order of the parts.
class NicSpread {
 public:
  explicit NicSpread(const Cluster& cluster) : cluster_(cluster), alike_(cluster.parts.size()) {
    std::map<std::pair<int, std::vector<End>>, std::vector<int>> groups;
    for (const int nic : cluster.parts_of(PartKind::kNic)) {
      groups[{cluster.parts[static_cast<size_t>(nic)].node, ends_of(nic)}].push_back(nic);
    }
    for (const auto& [ends, nics] : groups) {
      for (const int nic : nics) alike_[static_cast<size_t>(nic)] = nics;
    }
    for (size_t part = 0; part < cluster.parts.size(); ++part) {
      ordinal_.push_back(counts_[{cluster.parts[part].node, cluster.parts[part].kind}]++);
    }
  }

  // `way` leads from `from` to `to`.
  void spread(std::vector<LinkUse>& way, int from, int to) const {
    for (size_t i = 0; i + 1 < way.size(); ++i) {
      const int here = end_of(way[i]);
      const std::vector<int>& nics = alike_[static_cast<size_t>(here)];
      if (nics.size() < 2) continue;
      const bool is_sender = node_of(here) == node_of(from);
      const auto turn = static_cast<size_t>(ordinal_[static_cast<size_t>(is_sender ? from : to)]);
      const int nic = nics[turn % nics.size()];
      way[i] = moved(way[i], here, nic);
      way[i + 1] = moved(way[i + 1], here, nic);
    }
  }

 private:
  using End = std::tuple<int, double, double>;  // neighbour, rate, latency

  int node_of(int part) const { return cluster_.parts[static_cast<size_t>(part)].node; }
  int end_of(const LinkUse& use) const {
    const ClusterLink& link = cluster_.links[static_cast<size_t>(use.link)];
    return use.forward ? link.b : link.a;
  }

  std::vector<End> ends_of(int nic) {
    std::vector<End> ends;
    for (size_t i = 0; i < cluster_.links.size(); ++i) {
      const ClusterLink& link = cluster_.links[i];
      if (link.a != nic && link.b != nic) continue;
      const int other = link.a == nic ? link.b : link.a;
      ends.emplace_back(other, link.gbps, link.latency_us);
      link_of_[{nic, other}] = static_cast<int>(i);
    }
    std::sort(ends.begin(), ends.end());
    return ends;
  }

  // The same step at another NIC.
  LinkUse moved(const LinkUse& use, int nic, int other_nic) const {
    const ClusterLink& link = cluster_.links[static_cast<size_t>(use.link)];
    const int neighbour = link.a == nic ? link.b : link.a;
    const bool leaves_nic = use.forward == (link.a == nic);
    const int index = link_of_.at({other_nic, neighbour});
    const bool starts_at_nic = cluster_.links[static_cast<size_t>(index)].a == other_nic;
    return {index, leaves_nic == starts_at_nic};
  }

  const Cluster& cluster_;
  std::vector<std::vector<int>> alike_;  // [parts] NICs like this one; empty for others
  std::vector<int> ordinal_;             // [parts] among those of its kind and node
  std::map<std::pair<int, PartKind>, int> counts_;
  std::map<std::pair<int, int>, int> link_of_;  // of a NIC and its neighbour
};

}  // namespace

ClusterRoutes::ClusterRoutes(const Cluster& cluster, std::span<const int> parts)
    : num_parts_(parts.size()) {
  Search search(cluster);
  const NicSpread nics(cluster);
  for (const int from : parts) {
    search.run(from);
    for (const int to : parts) {
      routes_.push_back(search.way_to(to));
      nics.spread(routes_.back(), from, to);
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
