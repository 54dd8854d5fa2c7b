// The machine as far as this process may use it: cores, caches, NUMA nodes and their memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// A core with at least one CPU (hardware thread) of the allowed set.
struct MachineCore {
  int package = 0;        // counted from 0 in the machine's order
  int numa_node = 0;      // index into Machine::numa_nodes
  std::vector<int> cpus;  // the system's numbers, ascending
  friend bool operator==(const MachineCore&, const MachineCore&) = default;
};

// Data or unified caches of one level and size.
struct MachineCache {
  int level = 0;
  int64_t bytes = 0;  // of one
  int count = 0;
  friend bool operator==(const MachineCache&, const MachineCache&) = default;
};

struct MachineNumaNode {
  int os_index = 0;
  int64_t memory_bytes = 0;
  friend bool operator==(const MachineNumaNode&, const MachineNumaNode&) = default;
};

struct Machine {
  int num_packages = 0;
  std::vector<MachineCore> cores;           // in the machine's order
  std::vector<MachineCache> caches;         // by level, then size
  std::vector<MachineNumaNode> numa_nodes;  // by os_index; at least one

  int num_cpus() const;
  int64_t memory_bytes() const;
  friend bool operator==(const Machine&, const Machine&) = default;
};

// This machine, by hwloc, without I/O devices. Takes milliseconds: call beside other work. Sets
// HWLOC_PLUGINS_PATH to nothing unless it is set (plugins for displays and GPUs cost most of the
// time), so call it while no other thread reads the environment. kEnvironment when hwloc fails.
Machine probe_machine();

// From hwloc's short form, as "pack:2 numa:2 core:4 pu:2". kInput when malformed.
Machine machine_from_synthetic(const std::string& text);

// From hwloc's XML (lstopo file.xml). kInput when malformed.
Machine machine_from_xml(std::string_view xml);

// The CPUs of `allowed` for one of `num_local_ranks` ranks of this machine: whole cores side by
// side in the machine's order, so that a rank's cores share a NUMA node wherever ranks are enough,
// and no two ranks share a core; the first hardware thread of every core comes before the second
// ones. What `cores` does not tell of comes last. With more ranks than cores as cpus_of_local_rank
// (base/thread_pool.h), and without `cores` too.
std::vector<int> cpus_of_rank(std::span<const MachineCore> cores, const std::vector<int>& allowed,
                              int local_rank, int num_local_ranks);

// Where a PCI device hangs: the NUMA node (the system's number; -1: the machine does not tell) and
// its CPUs, as far as this process may use them.
struct PciPlace {
  int numa_node = -1;
  std::vector<int> cpus;  // ascending; empty: the machine does not tell
  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

// The places of devices by bus id ("0000:17:00.0", as a GPU's), by hwloc with I/O devices: tens of
// milliseconds on a large machine, once for all of them. A device that hwloc does not see has no
// place. Otherwise as probe_machine.
std::vector<PciPlace> places_of_pci(std::span<const std::string> bus_ids);

// The same out of hwloc's XML. kInput when malformed.
std::vector<PciPlace> places_of_pci_in_xml(std::string_view xml,
                                           std::span<const std::string> bus_ids);

// A stable text, one fact a line:
//   packages 2, cores 16, cpus 32, memory 4.29 GB
//   cache L1 32.8 KB x 16
//   numa 0: 1.07 GB, cores 4, cpus 0-7
std::string machine_text(const Machine& machine);

}  // namespace colibri
