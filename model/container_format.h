// The bytes of a .colibri file, as docs/container.md has them: a header of 64 bytes, an index of
// records of 64 bytes, then texts and weights. Written and read here and nowhere else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "model/tensor_role.h"

namespace colibri {

inline constexpr uint32_t kContainerVersion = 1;
inline constexpr uint64_t kContainerHeaderBytes = 64;
inline constexpr uint64_t kContainerRecordBytes = 64;
// A region starts at a multiple of this: a text, a tensor, or an expert's three matrices.
inline constexpr uint64_t kContainerAlignment = 4096;
// Every tensor starts at a multiple of this.
inline constexpr uint64_t kContainerTensorAlignment = 64;
inline constexpr uint64_t kMaxContainerIndexBytes = 256 << 20;
inline constexpr uint64_t kMaxContainerTextBytes = 256'000'000;
inline constexpr size_t kMaxContainerTextName = 39;

constexpr uint64_t align_up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct ContainerTensor {
  TensorKey key;
  DType dtype = DType::kF32;   // f32, bf16, q8 or q4
  int64_t rows = 0, cols = 0;  // a vector has rows 1
  uint64_t offset_bytes = 0, size_bytes = 0;
  uint64_t checksum = 0;  // XXH3-64 of the bytes
};

// A small file of the model, "config.json".
struct ContainerText {
  std::string name;
  uint64_t offset_bytes = 0, size_bytes = 0;
  uint64_t checksum = 0;
};

struct ContainerIndex {
  uint64_t file_bytes = 0;
  std::vector<ContainerTensor> tensors;
  std::vector<ContainerText> texts;

  uint64_t num_records() const { return tensors.size() + texts.size(); }
  // Of header and index together: they stand at the front of the file.
  uint64_t front_bytes() const {
    return kContainerHeaderBytes + num_records() * kContainerRecordBytes;
  }
};

// What the header says of the index.
struct ContainerHeader {
  uint64_t file_bytes = 0, index_offset_bytes = 0, index_bytes = 0, index_checksum = 0;
  uint32_t num_tensors = 0, num_texts = 0;
};

// "expert up of layer 3, expert 5", "final norm".
std::string to_string(const TensorKey& key);

// Header and index, checksums of both filled in.
std::string encode_container_front(const ContainerIndex& index);

// True for the first bytes of a file that wants to be a container, of whatever version.
bool has_container_magic(std::string_view first_bytes);

// Checks the first kContainerHeaderBytes of a file of `file_bytes`. Errors: kInput naming `where`
// and the field for a wrong magic, checksum, size or count, and for a cut file; kUnsupported naming
// both versions for another version.
ContainerHeader parse_container_header(std::string_view first_bytes, uint64_t file_bytes,
                                       const std::string& where);

// Checks every record: known codes, sizes that fit, places inside the file, behind the index and
// apart from each other, each key and name once. Errors: kInput naming `where` and the record.
ContainerIndex parse_container_index(const ContainerHeader& header, std::string_view index,
                                     const std::string& where);

// Both steps for a file in memory; for tests and fuzzing.
ContainerIndex parse_container_image(std::string_view image, const std::string& where);

}  // namespace colibri
