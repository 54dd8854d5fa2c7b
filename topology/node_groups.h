// Nodes of a machine that are alike, for showing each kind once.
#pragma once

#include <vector>

#include "topology/cluster.h"

namespace colibri {

struct NodeGroup {
  std::vector<int> nodes;  // ascending; the first stands for all
  std::vector<int> parts;  // of the first
  std::vector<int> links;  // with an end in the first
};

// Alike: the same parts in the same order, joined alike; names and addresses do not matter.
std::vector<NodeGroup> node_groups(const Cluster& cluster);

// Of each part the one it hangs on, by the first link between them, and that link; -1: none. A GPU
// or NIC hangs on a switch or CPU, a switch on a CPU, or on a switch that stands before it.
struct Above {
  int part = -1, link = -1;
};
std::vector<Above> parts_above(const Cluster& cluster);

}  // namespace colibri
