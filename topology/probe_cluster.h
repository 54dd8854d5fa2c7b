// This machine as a Cluster: what --machine auto means.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster.h"
#include "topology/gpu.h"

namespace colibri {

// By hwloc with I/O devices: a CPU part for each NUMA node that has CPUs this process may use
// (nodes of memory alone run no ranks and are left out), NVIDIA's GPUs and network adapters below
// the socket or PCIe switch they hang on, with the PCIe link each has. Devices are those of the
// catalogue by name ("NVIDIA H200" is h200) or, of a CPU, cpu-server and from 12 cores down
// cpu-laptop; rates of memory are the catalogue's: bench --calibrate measures this machine's. Takes
// tens of milliseconds. kEnvironment when hwloc fails.
Cluster probe_cluster();

// The same out of hwloc's XML. kInput when malformed.
Cluster cluster_from_xml(std::string_view xml);
// Out of hwloc's short form, as "pack:2 numa:2 core:4 pu:2". kInput when malformed.
Cluster cluster_from_synthetic(const std::string& text);

// Adds what CUDA and NVML know: `gpus` (topology/gpu.h) by PCI bus id are given their catalogue
// device, and those that reach each other with native atomics are joined by NVLink: all of them by
// an NVSwitch where each reaches all others and there are more than two, else pair by pair.
void add_gpu_links(std::span<const GpuInfo> gpus, Cluster& cluster);

// Nodes of several hosts as one machine: `nodes` in the order given become nodes 0, 1, ..., and all
// NICs join one network. kInput without nodes, or when several hosts have no NIC.
Cluster joined_nodes(std::span<const Cluster> nodes, const std::string& network_link);

// The catalogue's name for a GPU by the system's, "" when there is none: "NVIDIA H200" -> "h200".
std::string gpu_device_name(const std::string& system_name);

}  // namespace colibri
