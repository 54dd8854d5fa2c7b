// Of every kernel that ran, what the simulated device counted.
#include <cstdio>

#include "simulated_control.h"
#include "tests/gpu/bench_rig.h"

namespace colibri {

void print_counts() {
  std::printf(
      "\n| kernel | launches | shared bytes | of read sectors used | of written | bank ways "
      "|\n|---|---:|---:|---:|---:|---:|\n");
  for (const std::string& name : colibri_sim::counted_kernels()) {
    const auto counted = colibri_sim::counters_of(name);
    const auto share = [](uint64_t bytes, uint64_t sector_bytes) {
      return sector_bytes == 0
                 ? 100.0
                 : 100.0 * static_cast<double>(bytes) / static_cast<double>(sector_bytes);
    };
    std::printf("| %s | %llu | %zu | %.1f %% | %.1f %% | %d |\n", name.c_str(),
                static_cast<unsigned long long>(counted.num_launches), counted.max_shared_bytes,
                share(counted.loaded_bytes, counted.loaded_sector_bytes),
                share(counted.stored_bytes, counted.stored_sector_bytes), counted.worst_bank_ways);
  }
}

}  // namespace colibri
