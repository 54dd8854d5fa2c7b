// A machine as text and as a picture.
#pragma once

#include <string>

#include "topology/cluster.h"

namespace colibri {

// A tree, one part a line, with the link that joins it to the part above:
//   8xh200: 1 node
//   node 0
//     node0.cpu0  cpu-server, 48 cores, 1.02 TB, package 0
//       node0.switch0  pcie5-x16 52 GB/s
//         node0.gpu0  h200, 141 GB, pcie5-x16 52 GB/s
//   links besides: node0.gpu0 - node0.nvswitch nvlink4 255 GB/s, ...
// Nodes that are alike are told once, with their number.
std::string cluster_tree(const Cluster& cluster);

// Boxes for nodes, packages, switches, GPUs and NICs, lines with their GB/s, details on hover. Of
// nodes that are alike one is drawn, with their number. Width follows the GPUs of a node.
std::string cluster_svg(const Cluster& cluster);

}  // namespace colibri
