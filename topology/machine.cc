#include "topology/machine.h"

#include <algorithm>

#include "base/units.h"
#include "topology/system_checks.h"

namespace colibri {

int Machine::num_cpus() const {
  size_t count = 0;
  for (const MachineCore& core : cores) count += core.cpus.size();
  return static_cast<int>(count);
}

int64_t Machine::memory_bytes() const {
  int64_t bytes = 0;
  for (const MachineNumaNode& node : numa_nodes) bytes += node.memory_bytes;
  return bytes;
}

std::string machine_text(const Machine& machine) {
  std::string text = "packages " + std::to_string(machine.num_packages);
  text += ", cores " + std::to_string(machine.cores.size());
  text += ", cpus " + std::to_string(machine.num_cpus());
  text += ", memory " + format_bytes(machine.memory_bytes()) + "\n";
  for (const MachineCache& cache : machine.caches) {
    text += "cache L" + std::to_string(cache.level) + " " + format_bytes(cache.bytes) + " x " +
            std::to_string(cache.count) + "\n";
  }
  for (size_t node = 0; node < machine.numa_nodes.size(); ++node) {
    std::vector<int> cpus;
    int num_cores = 0;
    for (const MachineCore& core : machine.cores) {
      if (core.numa_node != static_cast<int>(node)) continue;
      ++num_cores;
      cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    }
    std::sort(cpus.begin(), cpus.end());
    text += "numa " + std::to_string(machine.numa_nodes[node].os_index) + ": " +
            format_bytes(machine.numa_nodes[node].memory_bytes) + ", cores " +
            std::to_string(num_cores) + ", cpus " +
            (cpus.empty() ? "none" : format_cpu_list(cpus)) + "\n";
  }
  return text;
}

}  // namespace colibri
