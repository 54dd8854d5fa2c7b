#include "model/input_file.h"

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

constexpr uint64_t kMaxReadBytes = uint64_t{1} << 30;  // the kernel reads at most 2 GB at once

constexpr uint64_t kFolioBytes = 2 << 20;

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

InputFile InputFile::open(const std::filesystem::path& path, const char* want) {
  InputFile file(path.string());
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) fail_open(file.path_, errno);
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0) fail_open(file.path_, errno);
  if (!S_ISREG(info.st_mode)) {
    fail(ErrorKind::kInput, file.path_, ": not a regular file; want ", want);
  }
  file.size_bytes_ = static_cast<uint64_t>(info.st_size);
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_bytes_(other.size_bytes_) {}

void InputFile::read(uint64_t offset_bytes, uint64_t num_bytes, void* into) const {
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

// The system drops whole folios only, of up to kFolioBytes: one that an earlier read left behind
// goes with the next, so the range begins where its first folio may begin.
void InputFile::forget(uint64_t offset_bytes, uint64_t num_bytes) const {
  const uint64_t begin = offset_bytes / kFolioBytes * kFolioBytes;
  ::posix_fadvise(fd_, static_cast<off_t>(begin),
                  static_cast<off_t>(offset_bytes + num_bytes - begin), POSIX_FADV_DONTNEED);
}

}  // namespace colibri
