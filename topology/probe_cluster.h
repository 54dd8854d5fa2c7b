// This machine as a Cluster: what --machine auto means.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/catalogue.h"
#include "topology/cluster.h"
#include "topology/gpu.h"
#include "topology/probe_nvml.h"

namespace colibri {

struct ProbedCluster {
  Cluster cluster;
  // What could not be seen, and what stands in for it; a line each.
  std::vector<std::string> notes = {};
};

// By hwloc with I/O devices: a CPU part for each NUMA node that has cores of its own (memory alone
// runs no ranks: it is noted), NVIDIA's GPUs and network adapters below the socket or PCIe switch
// they hang on, with the PCIe link each has. Where an adapter does RDMA, those that do not are left
// out. NVSwitches on the PCI bus join all GPUs. Adapters whose rate the system tells hang at the
// network ("fabric"). Devices are those of the catalogue, GPUs by PCI id or name; what is not in it
// is named and noted, and has another's numbers. CPUs are cpu-grace, cpu-server, or from 12 cores
// down cpu-laptop; rates of memory are the catalogue's: bench --calibrate measures this machine's.
// Takes tens of milliseconds. kEnvironment when hwloc fails.
ProbedCluster probe_cluster();

// The same out of hwloc's XML (lstopo file.xml). kInput when it is cut or no XML; otherwise the
// text must be trusted: hwloc 2.9 was seen to crash where a set of CPUs is damaged.
ProbedCluster cluster_from_xml(std::string_view xml);
// Out of hwloc's short form, as "pack:2 numa:2 core:4 pu:2". kInput when malformed.
ProbedCluster cluster_from_synthetic(const std::string& text);

// Adds what NVML knows, and drops what was guessed of NVLink: devices by name and memory, the best
// PCIe link of each GPU, NVLink by its links that are up, to an NVSwitch or pair by pair. GPUs that
// hwloc did not see are added at the first CPU, and noted.
void add_gpus(std::span<const NvmlGpu> gpus, ProbedCluster& machine);

// The same out of what CUDA knows (topology/gpu.h), where NVML is not at hand: GPUs that reach each
// other with native atomics are joined by NVLink with all its links: all of them by an NVSwitch
// where each reaches all others and there are more than two, else pair by pair.
void add_gpu_links(std::span<const GpuInfo> gpus, ProbedCluster& machine);

// Nodes of several hosts as one machine: `nodes` in the order given become nodes 0, 1, ..., and all
// NICs join one network, those that tell no rate by `network_link`. Switches of NVLink that several
// hosts share (NvmlGpu::fabric) become one. kInput without nodes, for one that is not a single
// node, or for one of several that has no NIC.
Cluster joined_nodes(std::span<const Cluster> nodes, const std::string& network_link);

// The catalogue's name for a GPU by the system's, "" when there is none: "NVIDIA H200" -> "h200".
std::string gpu_device_name(const std::string& system_name);
// The same by the PCI device number: 0x2335 -> "h200".
std::string gpu_device_name(int pci_device_id);

// The catalogue's NVLink of a GPU with all its links: "h200" -> "nvlink4".
std::string nvlink_name(const std::string& device);

// A PCIe link: kind, as "pcie4-x8", and rates, of the catalogue or in proportion to it. The second
// form goes by GB/s of one direction as hwloc tells them; 0: not known, taken for generation 4 and
// 16 lanes.
struct PcieLink {
  std::string kind;
  LinkSpec spec;
};
PcieLink pcie_link(int generation, int lanes);
PcieLink pcie_link(double nominal_gbps);

// The rate of an adapter by the files of `system` ("/"): "mlx5_0", "eth0" -> GB/s; 0: not told.
double network_gbps(const std::string& system, const std::string& adapter);

}  // namespace colibri
