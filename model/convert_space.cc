#include "model/convert_space.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace colibri {
namespace {

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

uint64_t needed_bytes(const ConvertPlan& plan, const std::vector<bool>& done,
                      const std::vector<uint64_t>& freed_bytes) {
  std::vector<size_t> blobs_left(freed_bytes.size(), 0);
  for (size_t i = 0; i < plan.blobs.size() && !freed_bytes.empty(); ++i) {
    if (done[i]) continue;
    for (const int file : plan.blobs[i].source_files) ++blobs_left[static_cast<size_t>(file)];
  }
  // Index and texts; blocks of a file system make each region a little larger.
  uint64_t taken = plan.index.file_bytes - plan.weight_bytes, freed = 0, most = taken;
  for (size_t i = 0; i < plan.blobs.size(); ++i) {
    if (done[i]) continue;
    taken += plan.blobs[i].size_bytes;
    if (taken > freed) most = std::max(most, taken - freed);
    if (freed_bytes.empty()) continue;
    for (const int file : plan.blobs[i].source_files) {
      const auto at = static_cast<size_t>(file);
      if (--blobs_left[at] == 0) freed += freed_bytes[at];
    }
  }
  return most;
}

uint64_t free_disk_bytes(const std::filesystem::path& path) {
  struct statvfs info {};
  const std::filesystem::path dir = directory_of(path);
  if (::statvfs(dir.c_str(), &info) != 0) {
    fail(ErrorKind::kEnvironment, dir.string(), ": ", std::strerror(errno),
         "; want a directory to write to");
  }
  return uint64_t{info.f_bavail} * info.f_frsize;
}

uint64_t bytes_freed_by_removing(const std::filesystem::path& file,
                                 const std::filesystem::path& beside) {
  struct stat info {
  }, disk{};
  if (::lstat(file.c_str(), &info) != 0) return 0;
  if (::stat(directory_of(beside).c_str(), &disk) != 0) return 0;
  if (info.st_dev != disk.st_dev || info.st_nlink > 1) return 0;
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

}  // namespace colibri
