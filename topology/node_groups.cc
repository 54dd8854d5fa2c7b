#include "topology/node_groups.h"

#include <algorithm>
#include <map>
#include <string>

namespace colibri {
namespace {

int height(PartKind kind) {
  switch (kind) {
    case PartKind::kCpu:
      return 2;
    case PartKind::kPcieSwitch:
      return 1;
    case PartKind::kGpu:
    case PartKind::kNic:
      return 0;
    case PartKind::kNvSwitch:
    case PartKind::kFabric:
      break;
  }
  return -1;
}

// All that can be seen of a node, in words.
std::string look_of(const Cluster& cluster, const std::vector<int>& parts) {
  std::map<int, size_t> place;
  std::string look;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ClusterPart& part = cluster.parts[static_cast<size_t>(parts[i])];
    place[parts[i]] = i;
    look += std::to_string(static_cast<int>(part.kind)) + " " + std::to_string(part.package) + " " +
            std::to_string(part.device) + " " + std::to_string(part.num_cores) + " " +
            std::to_string(part.memory_bytes) + ";";
  }
  for (const ClusterLink& link : cluster.links) {
    const bool has_a = place.contains(link.a), has_b = place.contains(link.b);
    if (!has_a && !has_b) continue;
    look += (has_a ? std::to_string(place[link.a]) : "away") + "-" +
            (has_b ? std::to_string(place[link.b]) : "away") + " " + link.kind + ";";
  }
  return look;
}

}  // namespace

std::vector<NodeGroup> node_groups(const Cluster& cluster) {
  std::vector<std::vector<int>> parts(static_cast<size_t>(cluster.num_nodes()));
  for (size_t i = 0; i < cluster.parts.size(); ++i) {
    const int node = cluster.parts[i].node;
    if (node >= 0) parts[static_cast<size_t>(node)].push_back(static_cast<int>(i));
  }
  std::vector<NodeGroup> groups;
  std::map<std::string, size_t> known;
  for (size_t node = 0; node < parts.size(); ++node) {
    const auto [found, is_new] = known.try_emplace(look_of(cluster, parts[node]), groups.size());
    if (is_new) groups.push_back({.nodes = {}, .parts = parts[node]});
    groups[found->second].nodes.push_back(static_cast<int>(node));
  }
  return groups;
}

Above part_above(const Cluster& cluster, int part) {
  const int mine = height(cluster.parts[static_cast<size_t>(part)].kind);
  if (mine < 0) return {};
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    const ClusterLink& link = cluster.links[i];
    if (link.a != part && link.b != part) continue;
    const int other = link.a == part ? link.b : link.a;
    if (height(cluster.parts[static_cast<size_t>(other)].kind) > mine) {
      return {other, static_cast<int>(i)};
    }
  }
  return {};
}

}  // namespace colibri
