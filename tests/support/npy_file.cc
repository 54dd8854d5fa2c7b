#include "tests/support/npy_file.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

namespace colibri {

NpyArray read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto refuse = [&](const char* why) -> void {
    throw std::runtime_error(path.string() + ": " + why);
  };
  if (bytes.size() < 10 || bytes.compare(1, 5, "NUMPY") != 0) refuse("not a NumPy file");
  const size_t header_bytes =
      static_cast<unsigned char>(bytes[8]) | size_t{static_cast<unsigned char>(bytes[9])} << 8;
  const std::string header = bytes.substr(10, header_bytes);
  if (header.find("'<f4'") == std::string::npos) refuse("want '<f4'");
  NpyArray array;
  const size_t shape = header.find('(');
  if (shape == std::string::npos ||
      std::sscanf(header.c_str() + shape, "(%zu, %zu)", &array.rows, &array.cols) != 2) {
    refuse("want two dimensions");
  }
  array.values.resize(array.rows * array.cols);
  if (bytes.size() != 10 + header_bytes + array.values.size() * sizeof(float)) refuse("wrong size");
  std::memcpy(array.values.data(), bytes.data() + 10 + header_bytes,
              array.values.size() * sizeof(float));
  return array;
}

}  // namespace colibri
