// Nodes of a machine that are alike, for showing each kind once.
#pragma once

#include <vector>

#include "topology/cluster.h"

namespace colibri {

struct NodeGroup {
  std::vector<int> nodes;  // ascending; the first stands for all
  std::vector<int> parts;  // of the first
};

// Alike: the same parts in the same order, joined alike; names and addresses do not matter.
std::vector<NodeGroup> node_groups(const Cluster& cluster);

// Of a node's part the one it hangs on: a GPU's or NIC's switch or CPU, a switch's CPU, by the
// first link between them; -1: none. And that link.
struct Above {
  int part = -1, link = -1;
};
Above part_above(const Cluster& cluster, int part);

}  // namespace colibri
