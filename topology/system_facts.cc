// Reading the facts, and the parsers of what the kernel writes.
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/thread_pool.h"
#include "topology/system_checks.h"
#include "topology/text_file.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view first_line(std::string_view text) { return split(text, '\n').front(); }

std::optional<uint64_t> soft_limit(__rlimit_resource resource) {
  rlimit limit;
  if (::getrlimit(resource, &limit) != 0) return std::nullopt;
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : uint64_t{limit.rlim_cur};
}

// Version 2 writes quota and period into one file, version 1 into two; -1 means no limit there.
std::optional<double> read_cpu_quota(const fs::path& root) {
  if (const auto text = read_text_file(root / "sys/fs/cgroup/cpu.max")) return parse_cpu_max(*text);
  const fs::path group = root / "sys/fs/cgroup/cpu";
  const std::string quota = read_text_file(group / "cpu.cfs_quota_us").value_or("");
  const std::string period = read_text_file(group / "cpu.cfs_period_us").value_or("");
  return parse_cpu_max(std::string(first_line(quota)) + " " + std::string(first_line(period)));
}

}  // namespace

std::optional<std::string> parse_huge_pages(std::string_view text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(open + 1, close - open - 1));
}

std::set<std::string> parse_cpu_flags(std::string_view cpuinfo) {
  std::set<std::string> flags;
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const size_t colon = line.find(':');
    if (!line.starts_with("flags") || colon == std::string_view::npos) continue;
    for (const std::string_view word : split(line.substr(colon + 1), ' ')) {
      if (!word.empty()) flags.emplace(word);
    }
    break;
  }
  return flags;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto words = split(first_line(text), ' ');
  if (words.size() != 2) return std::nullopt;
  const auto quota = parse_number(words[0]);
  const auto period = parse_number(words[1]);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t first = 0; first < cpus.size();) {
    size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (last > first) text += '-' + std::to_string(cpus[last]);
    first = last + 1;
  }
  return text;
}

std::string find_program(std::string_view name, std::string_view search_path) {
  for (const std::string_view folder : split(search_path, ':')) {
    if (folder.empty()) continue;
    const fs::path candidate = fs::path(folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  return "";
}

SystemFacts read_system_facts(const fs::path& root) {
  SystemFacts facts;
  struct statvfs shm;
  if (::statvfs("/dev/shm", &shm) == 0) {
    facts.shm_bytes = static_cast<int64_t>(shm.f_blocks * shm.f_frsize);
    facts.shm_free_bytes = static_cast<int64_t>(shm.f_bavail * shm.f_frsize);
  }
  facts.memlock_bytes = soft_limit(RLIMIT_MEMLOCK);
  facts.open_files = soft_limit(RLIMIT_NOFILE);
  facts.allowed_cpus = allowed_cpus();
  facts.cpu_quota = read_cpu_quota(root);
  try {
    facts.memory = read_system_memory(root);
  } catch (const Error&) {
    facts.memory = std::nullopt;  // the check says that it could not be read
  }
  const auto huge_pages = read_text_file(root / "sys/kernel/mm/transparent_hugepage/enabled");
  if (huge_pages) facts.huge_pages = parse_huge_pages(*huge_pages);
  facts.cpu_flags = parse_cpu_flags(read_text_file(root / "proc/cpuinfo").value_or(""));
  const char* search_path = std::getenv("PATH");
  facts.mpirun = find_program("mpirun", search_path == nullptr ? "" : search_path);
  return facts;
}

}  // namespace colibri
