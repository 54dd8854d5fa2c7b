// Where the parts of a node stand in a picture of its machine.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "topology/cluster.h"
#include "topology/node_groups.h"

namespace colibri {

// Pixels of pictures of machines.
inline constexpr double kPartHeight = 40, kPartWidth = 70, kCpuWidth = 124;

struct PartSpot {
  double x = 0, y = 0, width = kPartWidth;
  double centre() const { return x + width / 2; }
  double right() const { return x + width; }
  double bottom() const { return y + kPartHeight; }
};

struct PackageFrame {
  int package = 0;  // -1: parts that belong to none
  double x = 0, y = 0, width = 0, height = 0;
};

// Rows from top to bottom: CPUs, switches, GPUs and NICs, lines from GPU to GPU, the node's
// NVSwitch; below the node's frame the bars of what nodes share.
struct NodeLayout {
  double width = 0, frame_height = 0, height = 0;
  std::vector<PackageFrame> packages;
  std::map<int, PartSpot> spots;  // by part; relative to the node's upper left corner
  std::set<int> bars;             // parts that are drawn as wide bars
};

// Of the node that stands for `group`. `above`: parts_above(cluster).
NodeLayout node_layout(const Cluster& cluster, const std::vector<Above>& above,
                       const NodeGroup& group);

// The height of the line from GPU to GPU that is drawn as number `which`, below the GPUs.
double pair_line_drop(int which);

}  // namespace colibri
