// A two-dimensional f32 array as a NumPy file (format version 1.0), row by row.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>

namespace colibri {

// Writes under a temporary name; commit() fills in the number of rows and renames. Without commit()
// nothing is left.
class NpyWriter {
 public:
  // Fails with kInput when the file cannot be made.
  NpyWriter(const std::filesystem::path& path, int64_t num_cols);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  // Fails with kEnvironment when the disk is full.
  void add_row(std::span<const float> row);
  void commit();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write_header();
  void write(const void* data, size_t bytes);

  std::filesystem::path path_, temporary_;
  int64_t num_cols_, num_rows_ = 0;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace colibri
