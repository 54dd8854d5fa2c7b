// A large file that is read at positions, by several threads, and never believed to stay as it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace colibri {

// Movable. Threads: const members may be called from several threads.
class InputFile {
 public:
  // `want` says in the message what the file should be. Errors: kInput when it is not there or not
  // a regular file, kEnvironment when the system refuses to open it.
  static InputFile open(const std::filesystem::path& path, const char* want);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }

  // Positional read of [offset_bytes, offset_bytes + num_bytes). Fails with kInput if the file has
  // become shorter since it was opened, or the disk fails.
  void read(uint64_t offset_bytes, uint64_t num_bytes, void* into) const;
  // Lets the system drop this range from its cache, and up to 2 MB before it, which is taken for
  // read. Advice: it may not.
  void forget(uint64_t offset_bytes, uint64_t num_bytes) const;

 private:
  explicit InputFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  int fd_ = -1;
  uint64_t size_bytes_ = 0;
};

}  // namespace colibri
