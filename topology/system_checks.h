// What `colibri doctor` says about this node: facts are read once, checks are pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "topology/system_memory.h"

namespace colibri {

struct SystemCheck {
  std::string name;  // "/dev/shm", "memory", ...
  bool ok = true;
  std::string value;  // what was found
  std::string fix;    // what to do; empty when ok
};

// Empty members: could not be read.
struct SystemFacts {
  std::optional<int64_t> shm_bytes, shm_free_bytes;
  std::optional<uint64_t> memlock_bytes, open_files;  // soft limits; UINT64_MAX: unlimited
  std::vector<int> allowed_cpus;
  std::optional<double> cpu_quota;  // processors' worth of time; empty: unlimited
  std::optional<SystemMemory> memory;
  std::optional<std::string> huge_pages;  // "always", "madvise", "never"
  std::set<std::string> cpu_flags;        // as in /proc/cpuinfo
  std::string mpirun;                     // path; empty: not found
};

// Reads this node. Files come from below `root`, which tests replace; limits, /dev/shm and PATH are
// the process's own.
SystemFacts read_system_facts(const std::filesystem::path& root = "/");

// One check each, always the same names in the same order.
std::vector<SystemCheck> system_checks(const SystemFacts& facts);

// The parsers behind the facts.

// "always [madvise] never" -> "madvise".
std::optional<std::string> parse_huge_pages(std::string_view text);
// The words after the first "flags :" of /proc/cpuinfo.
std::set<std::string> parse_cpu_flags(std::string_view cpuinfo);
// "150000 100000" -> 1.5; "max 100000" and malformed text -> empty.
std::optional<double> parse_cpu_max(std::string_view text);
// "0,1,2,5" -> "0-2,5".
std::string format_cpu_list(const std::vector<int>& cpus);
// The first executable file `name` in the folders of `search_path` ("a:b"); empty: none.
std::string find_program(std::string_view name, std::string_view search_path);

}  // namespace colibri
