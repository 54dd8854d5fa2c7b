// The safetensors file format, read as hostile input: an 8-byte little-endian header length, a JSON
// header that names tensors and their byte ranges, then the data. Opening reads the header only.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "model/input_file.h"

namespace colibri {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr int kMaxTensorRank = 8;

// An element type as the format names it.
struct StoredType {
  std::string_view name;
  int bits = 0;
  bool is_weight = false;     // usable as a weight: F32, BF16, F16, F8_E4M3
  DType dtype = DType::kF32;  // of a weight
};
// Null for a name the format does not have.
const StoredType* find_stored_type(std::string_view name);

struct TensorDims {
  int rank = 0;
  std::array<int64_t, kMaxTensorRank> size{};

  bool operator==(const TensorDims&) const = default;
};
// "[16, 192]"
std::string to_string(const TensorDims& dims);

struct SafetensorsEntry {
  std::string name;
  const StoredType* type = nullptr;
  TensorDims dims;
  uint64_t offset_bytes = 0;  // from the start of the file; not aligned to anything
  uint64_t size_bytes = 0;
};

// The header length from the first bytes of a file (8, or up to 512, which lets a git-lfs pointer
// or an HTML page be named). Fails with kInput naming `where` if the file cannot hold such a
// header.
uint64_t check_header_length(std::string_view first_bytes, uint64_t file_bytes,
                             const std::string& where);

// All tensors of a header, in file order. `file_bytes` is the size of the whole file, which header
// and data must fill to the byte without hole or overlap. Errors: kInput with the tensor's name,
// what came and what was wanted. Memory stays within a small multiple of the header.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, uint64_t file_bytes,
                                                       const std::string& where);

// Both steps for a file in memory; for tests and fuzzing.
std::vector<SafetensorsEntry> parse_safetensors_image(std::string_view image,
                                                      const std::string& where);

// An open file. Movable. Threads: const members may be called from several threads.
class SafetensorsFile {
 public:
  // Errors: kInput for a malformed file, kEnvironment when the system refuses to open it.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::string& path() const { return file_.path(); }
  uint64_t size_bytes() const { return file_.size_bytes(); }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  // As InputFile's.
  void read(uint64_t offset_bytes, uint64_t num_bytes, void* into) const {
    file_.read(offset_bytes, num_bytes, into);
  }
  void forget(uint64_t offset_bytes, uint64_t num_bytes) const {
    file_.forget(offset_bytes, num_bytes);
  }

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace colibri
