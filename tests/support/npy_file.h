// Reads a two-dimensional f32 NumPy file.
#pragma once

#include <filesystem>
#include <vector>

namespace colibri {

struct NpyArray {
  size_t rows = 0, cols = 0;
  std::vector<float> values;  // row-major
  const float* row(size_t i) const { return values.data() + i * cols; }
};

// Throws std::runtime_error naming the file when it is not a [rows, cols] array of '<f4'.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace colibri
