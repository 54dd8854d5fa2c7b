// The bytes are a .colibri file: whatever they are, reading header and index either gives parts
// that lie in the file and apart, or throws Error. Checksums would stop nearly every change at the
// door, so the same bytes are read once more with checksums that match.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/checksum.h"
#include "model/container_format.h"

namespace {

void check_parts(std::string_view image) {
  const colibri::ContainerIndex index = colibri::parse_container_image(image, "fuzz.colibri");
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (const auto& tensor : index.tensors) {
    if (tensor.rows <= 0 || tensor.cols <= 0 || tensor.size_bytes == 0) __builtin_trap();
    parts.emplace_back(tensor.offset_bytes, tensor.size_bytes);
  }
  for (const auto& text : index.texts) {
    if (text.name.empty() || text.name.find('/') != std::string::npos) __builtin_trap();
    if (text.size_bytes > 0) parts.emplace_back(text.offset_bytes, text.size_bytes);
  }
  std::sort(parts.begin(), parts.end());
  uint64_t end = index.front_bytes();
  for (const auto& [offset, size] : parts) {
    if (offset < end || size > image.size() || offset > image.size() - size) __builtin_trap();
    end = offset + size;
  }
}

// The image with both checksums as they should be, if its header says where the index is.
std::string with_checksums(std::string image) {
  if (image.size() < colibri::kContainerHeaderBytes) return image;
  uint64_t offset = 0, bytes = 0;
  std::memcpy(&offset, image.data() + 24, sizeof offset);
  std::memcpy(&bytes, image.data() + 32, sizeof bytes);
  if (offset <= image.size() && bytes <= image.size() - offset) {
    const uint64_t index = colibri::Checksum::of(image.data() + offset, bytes);
    std::memcpy(image.data() + 40, &index, sizeof index);
  }
  const uint64_t header = colibri::Checksum::of(image.data(), 56);
  std::memcpy(image.data() + 56, &header, sizeof header);
  return image;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string image(reinterpret_cast<const char*>(data), size);
  for (const std::string& bytes : {image, with_checksums(image)}) {
    try {
      check_parts(bytes);
    } catch (const colibri::Error&) {
    }
  }
  return 0;
}
