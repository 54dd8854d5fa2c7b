#include "topology/system_memory.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/error.h"
#include "topology/text_file.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

// Limits this large mean none: version 1 writes the largest multiple of a page for "no limit".
constexpr int64_t kNoLimit = int64_t{1} << 62;

std::optional<int64_t> parse_number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() || value < 0) return std::nullopt;
  return value;
}

// The value of "key 123" in a file of such lines; 0 when missing.
int64_t stat_value(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      return parse_number(line.substr(key.size())).value_or(0);
    }
  }
  return 0;
}

struct CgroupFiles {
  const char *mount, *limit, *use, *reclaimable;
};
constexpr CgroupFiles kVersion2 = {"sys/fs/cgroup", "memory.max", "memory.current",
                                   "inactive_file"};
constexpr CgroupFiles kVersion1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                   "memory.usage_in_bytes", "total_inactive_file"};

// Room in one group; empty when it sets no limit.
std::optional<int64_t> room_of(const fs::path& group, const CgroupFiles& files) {
  const auto limit = parse_number(read_text_file(group / files.limit).value_or(""));
  const auto use = parse_number(read_text_file(group / files.use).value_or(""));
  if (!limit || *limit >= kNoLimit || !use) return std::nullopt;
  const std::string stat = read_text_file(group / "memory.stat").value_or("");
  const int64_t held = std::max<int64_t>(0, *use - stat_value(stat, files.reclaimable));
  return std::max<int64_t>(0, *limit - held);
}

// The path of this process's group: "0::/a/b" (version 2) or "4:cpu,memory:/a/b" (version 1).
std::optional<std::string> group_path(std::string_view cgroup, bool version_2) {
  for (const std::string_view line : split(cgroup, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) continue;
    const auto controllers = split(fields[1], ',');
    const std::string_view wanted = version_2 ? "" : "memory";
    if (std::find(controllers.begin(), controllers.end(), wanted) == controllers.end()) continue;
    const size_t path_at = fields[0].size() + fields[1].size() + 2;  // a path may hold colons
    return std::string(line.substr(path_at));
  }
  return std::nullopt;
}

// The least room of the group and those above it. Inside a container the path may name a group that
// only the host sees; then the mount itself is the group.
std::optional<int64_t> least_room(const fs::path& root, const std::string& path,
                                  const CgroupFiles& files) {
  const fs::path mount = root / files.mount;
  std::optional<int64_t> least = room_of(mount, files);
  fs::path group = mount;
  for (const fs::path& part : fs::path(path).relative_path()) {
    if (part == "..") break;
    group /= part;
    const auto room = room_of(group, files);
    if (room) least = std::min(least.value_or(*room), *room);
  }
  return least;
}

}  // namespace

std::optional<int64_t> meminfo_bytes(std::string_view meminfo, std::string_view key) {
  for (const std::string_view line : split(meminfo, '\n')) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    if (!line.ends_with(" kB")) return std::nullopt;
    const auto kilobytes = parse_number(line.substr(key.size() + 1));
    if (!kilobytes || *kilobytes > INT64_MAX / 1024) return std::nullopt;
    return *kilobytes * 1024;
  }
  return std::nullopt;
}

int64_t SystemMemory::usable_bytes() const {
  return std::min(available_bytes, cgroup_room_bytes.value_or(available_bytes));
}

SystemMemory read_system_memory(const fs::path& root) {
  const std::string meminfo = read_text_file(root / "proc/meminfo").value_or("");
  const auto available = meminfo_bytes(meminfo, "MemAvailable");
  if (!available) {
    fail(ErrorKind::kEnvironment, (root / "proc/meminfo").string(),
         " has no MemAvailable; is /proc mounted?");
  }
  SystemMemory memory;
  memory.total_bytes = meminfo_bytes(meminfo, "MemTotal").value_or(*available);
  memory.available_bytes = *available;
  const std::string cgroup = read_text_file(root / "proc/self/cgroup").value_or("");
  for (const bool version_2 : {true, false}) {
    const auto path = group_path(cgroup, version_2);
    if (!path) continue;
    const auto room = least_room(root, *path, version_2 ? kVersion2 : kVersion1);
    if (room) memory.cgroup_room_bytes = std::min(memory.cgroup_room_bytes.value_or(*room), *room);
  }
  return memory;
}

}  // namespace colibri
