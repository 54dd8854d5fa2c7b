// The short form of a machine file: nodes that are built alike, by a few numbers.
#pragma once

#include <string>

#include "topology/catalogue.h"
#include "topology/cluster.h"

namespace colibri {

// [[node]] of a machine file. Names of devices and links are the catalogue's; "" is none.
struct RegularNode {
  int count = 1;
  std::string cpu, gpu;
  int packages = 1, numa_per_package = 1;
  int cores = 1;             // of each NUMA node
  int64_t memory_bytes = 0;  // of each NUMA node
  std::string package_link;  // joins every two packages; inside a package NUMA nodes join likewise
  std::string numa_link;     // instead, inside a package
  int gpus = 0;
  int gpus_per_switch = 1;             // PCIe switches are spread over the packages in order
  std::string pcie;                    // of each GPU, and of each switch to its package
  std::string nic_pcie;                // of each NIC
  std::string nvlink;                  // of each GPU
  std::string nvlink_form = "switch";  // switch: to the node's NVSwitch; rack: to one for all
                                       // nodes; pairs: GPUs 0 and 1, 2 and 3, ...
  int nics = 0;                        // spread over the switches, or packages, in order
  std::string nic;                     // link of a NIC into the network
};

// Adds the node's parts and links, once for each of its `count`. `where` begins every message.
// kInput for a name that the catalogue has not, with those it has, and for numbers that do not go
// together.
void add_regular_nodes(const RegularNode& node, const Catalogue& catalogue,
                       const std::string& where, Cluster& cluster);

// Index in cluster.devices, added when it is not there. Errors as above.
int device_index(const std::string& name, const Catalogue& catalogue, const std::string& where,
                 Cluster& cluster);

}  // namespace colibri
