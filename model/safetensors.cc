#include "model/safetensors.h"

#include <algorithm>

namespace colibri {
namespace {

constexpr size_t kProbeBytes = 512;

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(InputFile::open(path, "a safetensors file"));
  std::string first(std::min<uint64_t>(kProbeBytes, file.size_bytes()), '\0');
  file.read(0, first.size(), first.data());
  const uint64_t length = check_header_length(first, file.size_bytes(), file.path());
  std::string header(length, '\0');
  file.read(8, length, header.data());
  file.entries_ = parse_safetensors_header(header, file.size_bytes(), file.path());
  return file;
}

}  // namespace colibri
