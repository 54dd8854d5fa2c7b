// A file that is written at positions and in the end made durable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace colibri {

// Threads: write() may be called from several threads for places apart.
class OutputFile {
 public:
  // Opens for reading and writing, and makes it if it is not there. Errors: kEnvironment.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Errors: kEnvironment, a full disk with what to do.
  void write(uint64_t offset_bytes, const void* bytes, uint64_t size_bytes);
  // False if the file ends before that.
  bool read(uint64_t offset_bytes, void* into, uint64_t size_bytes) const;
  void truncate(uint64_t size_bytes);
  // Returns when what was written is on the disk.
  void sync();
  // Takes the lock that one process at a time can hold, until this is destroyed; false if another
  // process has it.
  bool try_lock();
  uint64_t size_bytes() const;

 private:
  [[noreturn]] void fail_now(const char* doing) const;

  std::string path_;
  int fd_ = -1;
};

// Makes the names in a directory durable.
void sync_directory(const std::filesystem::path& dir);

}  // namespace colibri
