#include "topology/system_checks.h"

#include <array>

#include "base/units.h"

namespace colibri {
namespace {

// Below these something is known to fail or to be slow; the fix says what.
constexpr int64_t kMinShmFreeBytes = int64_t{64} << 20;   // what containers give when nobody asked
constexpr uint64_t kMinMemlockBytes = uint64_t{8} << 20;  // the kernel's own default
constexpr uint64_t kMinOpenFiles = 1024;
constexpr int64_t kMinMemoryBytes = int64_t{1} << 30;

// A check that is ok, or not ok with its fix.
SystemCheck made(std::string name, bool ok, std::string value, std::string fix) {
  return {std::move(name), ok, std::move(value), ok ? std::string() : std::move(fix)};
}

std::string limit_text(const std::optional<uint64_t>& limit, bool is_bytes) {
  if (!limit) return "cannot be read";
  if (*limit > static_cast<uint64_t>(INT64_MAX)) return "unlimited";
  return is_bytes ? format_bytes(static_cast<int64_t>(*limit)) : std::to_string(*limit);
}

SystemCheck check_shm(const SystemFacts& facts) {
  const std::string fix =
      "ranks of one node exchange bytes there: mount it, or give the container more "
      "(--shm-size=1g)";
  if (!facts.shm_free_bytes || !facts.shm_bytes) {
    return made("/dev/shm", false, "is not there", fix);
  }
  return made("/dev/shm", *facts.shm_free_bytes >= kMinShmFreeBytes,
              format_bytes(*facts.shm_free_bytes) + " free of " + format_bytes(*facts.shm_bytes),
              fix);
}

SystemCheck check_cores(const SystemFacts& facts) {
  std::string value = std::to_string(facts.allowed_cpus.size()) + " allowed (" +
                      format_cpu_list(facts.allowed_cpus) + ")";
  if (!facts.cpu_quota) return made("cores", !facts.allowed_cpus.empty(), value + ", no quota", "");
  char quota[32];
  std::snprintf(quota, sizeof quota, ", quota %.1f", *facts.cpu_quota);
  return made(
      "cores", *facts.cpu_quota >= static_cast<double>(facts.allowed_cpus.size()), value + quota,
      "more threads than the quota are stopped for parts of each period: raise the quota or "
      "give --threads");
}

SystemCheck check_memory_room(const SystemFacts& facts) {
  const std::string fix = "free memory or raise the container's limit";
  if (!facts.memory) return made("memory", false, "cannot be read", "mount /proc");
  const std::string limited = facts.memory->cgroup_room_bytes ? ", with a container limit" : "";
  return made("memory", facts.memory->usable_bytes() >= kMinMemoryBytes,
              format_bytes(facts.memory->usable_bytes()) + " usable of " +
                  format_bytes(facts.memory->total_bytes) + limited,
              fix);
}

SystemCheck check_huge_pages(const SystemFacts& facts) {
  const std::string fix =
      "weights are read faster from huge pages: echo madvise > "
      "/sys/kernel/mm/transparent_hugepage/enabled";
  if (!facts.huge_pages) return made("huge pages", false, "not in this kernel", fix);
  return made("huge pages", *facts.huge_pages != "never", *facts.huge_pages, fix);
}

SystemCheck check_instruction_sets(const SystemFacts& facts) {
  constexpr std::array kNames = {"avx2",     "fma",      "avx512f",     "avx512bw",
                                 "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"};
  std::string found;
  for (const char* name : kNames) {
    if (!facts.cpu_flags.contains(name)) continue;
    if (!found.empty()) found += ' ';
    found += name;
  }
  const bool ok = facts.cpu_flags.contains("avx2") && facts.cpu_flags.contains("fma");
  return made("instruction sets", ok, found.empty() ? "none of avx2, avx512" : found,
              "colibri runs with its portable kernels, slower; a processor with AVX2 is faster");
}

SystemCheck check_mpirun(const SystemFacts& facts) {
  return made(
      "mpirun", !facts.mpirun.empty(), facts.mpirun.empty() ? "not found" : facts.mpirun,
      "--ranks needs Open MPI: apt-get install openmpi-bin; --transport local works without");
}

}  // namespace

std::vector<SystemCheck> system_checks(const SystemFacts& facts) {
  return {
      check_cores(facts),
      check_instruction_sets(facts),
      check_memory_room(facts),
      check_huge_pages(facts),
      check_shm(facts),
      made("locked memory", facts.memlock_bytes.value_or(0) >= kMinMemlockBytes,
           limit_text(facts.memlock_bytes, true),
           "network cards and GPUs lock memory: ulimit -l unlimited"),
      made("open files", facts.open_files.value_or(0) >= kMinOpenFiles,
           limit_text(facts.open_files, false), "raise it: ulimit -n 4096"),
      check_mpirun(facts),
  };
}

}  // namespace colibri
