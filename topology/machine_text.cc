#include <cstdio>
#include <map>
#include <set>

#include "base/units.h"
#include "topology/machine_picture.h"
#include "topology/node_groups.h"

namespace colibri {
namespace {

std::string rate(const ClusterLink& link) {
  char text[64];
  std::snprintf(text, sizeof text, "%s %.4g GB/s", link.kind.c_str(), link.gbps);
  return text;
}

class Tree {
 public:
  explicit Tree(const Cluster& cluster) : cluster_(cluster), above_(parts_above(cluster)) {
    for (size_t i = 0; i < cluster.parts.size(); ++i) {
      if (above_[i].part >= 0) below_[above_[i].part].push_back(static_cast<int>(i));
      if (above_[i].link >= 0) told_.insert(above_[i].link);
    }
  }

  std::string text() {
    const auto groups = node_groups(cluster_);
    std::string text = cluster_.name + ": " + std::to_string(cluster_.num_nodes()) +
                       (cluster_.num_nodes() == 1 ? " node\n" : " nodes\n");
    for (const NodeGroup& group : groups) {
      text += "node " + std::to_string(group.nodes[0]);
      if (group.nodes.size() > 1) {
        text += " (and " + std::to_string(group.nodes.size() - 1) + " more like it)";
      }
      text += "\n";
      for (const int part : group.parts) {
        if (above_[static_cast<size_t>(part)].part < 0) add(part, 1, text);
      }
      text += others(group);
    }
    return text;
  }

 private:
  void add(int part, int depth, std::string& text) {
    const ClusterPart& p = cluster_.parts[static_cast<size_t>(part)];
    text += std::string(static_cast<size_t>(2 * depth), ' ') + p.name;
    if (p.device >= 0) text += "  " + cluster_.device_of(part).name;
    if (p.num_cores > 0) text += ", " + std::to_string(p.num_cores) + " cores";
    const int64_t bytes = p.device >= 0 && p.kind == PartKind::kGpu
                              ? cluster_.device_of(part).memory_bytes
                              : p.memory_bytes;
    if (bytes > 0) text += ", " + format_bytes(bytes);
    if (!p.address.empty()) text += ", " + p.address;
    const int link = above_[static_cast<size_t>(part)].link;
    if (link >= 0) {
      text += (p.device >= 0 ? ", " : "  ") + rate(cluster_.links[static_cast<size_t>(link)]);
    }
    text += "\n";
    for (const int child : below_[part]) add(child, depth + 1, text);
  }

  // Links of the node's parts that are not in the tree.
  std::string others(const NodeGroup& group) const {
    std::string text;
    for (const int index : group.links) {
      if (told_.contains(index)) continue;
      const ClusterLink& link = cluster_.links[static_cast<size_t>(index)];
      const auto& a = cluster_.parts[static_cast<size_t>(link.a)];
      const auto& b = cluster_.parts[static_cast<size_t>(link.b)];
      text += "    " + a.name + " - " + b.name + "  " + rate(link) + "\n";
    }
    return text.empty() ? "" : "  besides\n" + text;
  }

  const Cluster& cluster_;
  std::vector<Above> above_;
  std::map<int, std::vector<int>> below_;
  std::set<int> told_;  // links
};

}  // namespace

std::string cluster_tree(const Cluster& cluster) { return Tree(cluster).text(); }

}  // namespace colibri
