#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace colibri {
namespace {

constexpr size_t kProbeBytes = 512;
constexpr uint64_t kMaxReadBytes = uint64_t{1} << 30;  // the kernel reads at most 2 GB at once

[[noreturn]] void fail_open(const std::string& path, int error) {
  if (error == ENOENT) {
    fail(ErrorKind::kInput, path, ": no such file (or a link that leads nowhere)");
  }
  if (error == EMFILE || error == ENFILE) {
    fail(ErrorKind::kEnvironment, path, ": too many open files; raise the limit (ulimit -n)");
  }
  fail(ErrorKind::kEnvironment, path, ": cannot be opened: ", std::strerror(error));
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(path.string());
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) fail_open(file.path_, errno);
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0) fail_open(file.path_, errno);
  if (!S_ISREG(info.st_mode)) {
    fail(ErrorKind::kInput, file.path_, ": not a regular file; want a safetensors file");
  }
  file.size_bytes_ = static_cast<uint64_t>(info.st_size);
  std::string first(std::min<uint64_t>(kProbeBytes, file.size_bytes_), '\0');
  file.read(0, first.size(), first.data());
  const uint64_t length = check_header_length(first, file.size_bytes_, file.path_);
  std::string header(length, '\0');
  file.read(8, length, header.data());
  file.entries_ = parse_safetensors_header(header, file.size_bytes_, file.path_);
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) ::close(fd_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_bytes_(other.size_bytes_),
      entries_(std::move(other.entries_)) {}

void SafetensorsFile::read(uint64_t offset_bytes, uint64_t num_bytes, void* into) const {
  auto* out = static_cast<char*>(into);
  uint64_t done = 0;
  while (done < num_bytes) {
    const auto want = static_cast<size_t>(std::min(num_bytes - done, kMaxReadBytes));
    const ssize_t got = ::pread(fd_, out + done, want, static_cast<off_t>(offset_bytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(ErrorKind::kInput, path_, ": reading ", num_bytes, " bytes at ", offset_bytes, ": ",
           std::strerror(errno));
    }
    if (got == 0) {
      fail(ErrorKind::kInput, path_, ": ends at byte ", offset_bytes + done, ", want ",
           offset_bytes + num_bytes, "; it had ", size_bytes_,
           " bytes when opened and was changed while in use");
    }
    done += static_cast<uint64_t>(got);
  }
}

}  // namespace colibri
