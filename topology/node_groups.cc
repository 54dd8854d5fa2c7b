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

// All that can be seen of a node, in words. `place`: of each part in its own node.
std::string look_of(const Cluster& cluster, int node, const std::vector<int>& parts,
                    const std::vector<int>& links, const std::vector<size_t>& place) {
  std::string look;
  for (const int index : parts) {
    const ClusterPart& part = cluster.parts[static_cast<size_t>(index)];
    look += std::to_string(static_cast<int>(part.kind)) + " " + std::to_string(part.package) + " " +
            std::to_string(part.device) + " " + std::to_string(part.num_cores) + " " +
            std::to_string(part.memory_bytes) + ";";
  }
  // An end in no node is that part itself, in another node just another node.
  const auto end = [&](int part) {
    const int home = cluster.parts[static_cast<size_t>(part)].node;
    if (home == node) return std::to_string(place[static_cast<size_t>(part)]);
    return home < 0 ? "shared" + std::to_string(part) : std::string("away");
  };
  for (const int index : links) {
    const ClusterLink& link = cluster.links[static_cast<size_t>(index)];
    look +=
        end(link.a) + "-" + end(link.b) + " " + link.kind + " " + std::to_string(link.gbps) + ";";
  }
  return look;
}

}  // namespace

std::vector<NodeGroup> node_groups(const Cluster& cluster) {
  const auto num_nodes = static_cast<size_t>(cluster.num_nodes());
  std::vector<std::vector<int>> parts(num_nodes), links(num_nodes);
  std::vector<size_t> place(cluster.parts.size());
  for (size_t i = 0; i < cluster.parts.size(); ++i) {
    if (cluster.parts[i].node < 0) continue;
    auto& mine = parts[static_cast<size_t>(cluster.parts[i].node)];
    place[i] = mine.size();
    mine.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    const int a = cluster.parts[static_cast<size_t>(cluster.links[i].a)].node;
    const int b = cluster.parts[static_cast<size_t>(cluster.links[i].b)].node;
    if (a >= 0) links[static_cast<size_t>(a)].push_back(static_cast<int>(i));
    if (b >= 0 && b != a) links[static_cast<size_t>(b)].push_back(static_cast<int>(i));
  }
  std::vector<NodeGroup> groups;
  std::map<std::string, size_t> known;
  for (size_t node = 0; node < num_nodes; ++node) {
    const auto [found, is_new] = known.try_emplace(
        look_of(cluster, static_cast<int>(node), parts[node], links[node], place), groups.size());
    if (is_new) groups.push_back({.nodes = {}, .parts = parts[node], .links = links[node]});
    groups[found->second].nodes.push_back(static_cast<int>(node));
  }
  return groups;
}

std::vector<Above> parts_above(const Cluster& cluster) {
  std::vector<Above> above(cluster.parts.size());
  const auto hang = [&](int part, int on, int link) {
    const int mine = height(cluster.parts[static_cast<size_t>(part)].kind);
    const int its = height(cluster.parts[static_cast<size_t>(on)].kind);
    const bool is_chain = mine == 1 && its == 1 && on < part;
    Above& now = above[static_cast<size_t>(part)];
    if (mine >= 0 && (its > mine || is_chain) && now.part < 0) now = {on, link};
  };
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    const ClusterLink& link = cluster.links[i];
    hang(link.a, link.b, static_cast<int>(i));
    hang(link.b, link.a, static_cast<int>(i));
  }
  return above;
}

}  // namespace colibri
