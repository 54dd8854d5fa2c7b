#include "model/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace colibri {
namespace {

constexpr uint64_t kMaxWriteBytes = uint64_t{1} << 30;

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path.string()) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_now("cannot be opened for writing");
}

OutputFile::~OutputFile() { ::close(fd_); }

void OutputFile::fail_now(const char* doing) const {
  const int error = errno;
  const bool is_full = error == ENOSPC || error == EDQUOT;
  fail(ErrorKind::kEnvironment, path_, ": ", doing, ": ", std::strerror(error),
       is_full ? "; free some of the disk and run the same command again: it goes on" : "");
}

void OutputFile::write(uint64_t offset_bytes, const void* bytes, uint64_t size_bytes) {
  const auto* from = static_cast<const char*>(bytes);
  uint64_t done = 0;
  while (done < size_bytes) {
    const auto want = static_cast<size_t>(std::min(size_bytes - done, kMaxWriteBytes));
    const ssize_t put = ::pwrite(fd_, from + done, want, static_cast<off_t>(offset_bytes + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_now("cannot be written");
    done += static_cast<uint64_t>(put);
  }
}

bool OutputFile::read(uint64_t offset_bytes, void* into, uint64_t size_bytes) const {
  auto* out = static_cast<char*>(into);
  uint64_t done = 0;
  while (done < size_bytes) {
    const auto want = static_cast<size_t>(std::min(size_bytes - done, kMaxWriteBytes));
    const ssize_t got = ::pread(fd_, out + done, want, static_cast<off_t>(offset_bytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_now("cannot be read");
    if (got == 0) return false;
    done += static_cast<uint64_t>(got);
  }
  return true;
}

void OutputFile::truncate(uint64_t size_bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0) fail_now("cannot be cut");
}

void OutputFile::sync() {
  if (::fdatasync(fd_) != 0) fail_now("cannot be written to the disk");
}

bool OutputFile::try_lock() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  fail_now("cannot be locked");
}

uint64_t OutputFile::size_bytes() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail_now("cannot be looked at");
  return static_cast<uint64_t>(info.st_size);
}

void sync_directory(const std::filesystem::path& dir) {
  const int fd = ::open(dir.empty() ? "." : dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // some file systems cannot, and need not
  ::close(fd);
}

}  // namespace colibri
