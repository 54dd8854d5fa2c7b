#include "topology/machine.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/thread_pool.h"
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

std::vector<int> cpus_of_rank(std::span<const MachineCore> cores, const std::vector<int>& allowed,
                              int local_rank, int num_local_ranks) {
  std::set<int> open(allowed.begin(), allowed.end());
  std::vector<std::vector<int>> threads;  // of each core that may be used
  for (const MachineCore& core : cores) {
    std::vector<int> mine;
    for (const int cpu : core.cpus) {
      if (open.erase(cpu) > 0) mine.push_back(cpu);
    }
    if (!mine.empty()) threads.push_back(std::move(mine));
  }
  if (static_cast<int>(threads.size()) < num_local_ranks) {
    return cpus_of_local_rank(allowed, local_rank, num_local_ranks);
  }
  for (const int cpu : open) threads.push_back({cpu});
  std::vector<int> numbers(threads.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<int> share;
  const std::vector<int> own = cpus_of_local_rank(numbers, local_rank, num_local_ranks);
  bool has_more = true;
  for (size_t thread = 0; has_more; ++thread) {
    has_more = false;
    for (const int core : own) {
      const std::vector<int>& of_core = threads[static_cast<size_t>(core)];
      if (thread < of_core.size()) share.push_back(of_core[thread]);
      has_more |= thread + 1 < of_core.size();
    }
  }
  return share;
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
