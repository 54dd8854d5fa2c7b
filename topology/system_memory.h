// The memory this process may still take on its node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace colibri {

struct SystemMemory {
  int64_t total_bytes = 0;      // of the machine
  int64_t available_bytes = 0;  // the kernel's estimate: free and reclaimable
  // Of the tightest control group above this process: limit minus use, reclaimable cache not
  // counted as use; empty when there is no limit.
  std::optional<int64_t> cgroup_room_bytes;

  // What a plan may count on.
  int64_t usable_bytes() const;
};

// Reads proc/meminfo, proc/self/cgroup and the control groups (version 2 or 1) below `root`, which
// tests replace. kEnvironment when proc/meminfo has no MemAvailable.
SystemMemory read_system_memory(const std::filesystem::path& root = "/");

// "MemAvailable:  22017680 kB" -> bytes. Empty when the key is missing or malformed.
std::optional<int64_t> meminfo_bytes(std::string_view meminfo, std::string_view key);

}  // namespace colibri
