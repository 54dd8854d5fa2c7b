// The bytes are a safetensors file, and a model.safetensors.index.json: whatever they are, reading
// them either gives tensors that lie in the file or throws Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/checkpoint_files.h"
#include "model/safetensors.h"

namespace {

void check_entries(std::string_view image) {
  uint64_t end = 0;
  for (const colibri::SafetensorsEntry& entry :
       colibri::parse_safetensors_image(image, "fuzz.safetensors")) {
    if (end != 0 && entry.offset_bytes != end) __builtin_trap();
    end = entry.offset_bytes + entry.size_bytes;
    if (end > image.size() || entry.type == nullptr) __builtin_trap();
  }
}

void check_index(std::string_view text) {
  const colibri::WeightFiles files =
      colibri::parse_weight_index(text, "/models", "fuzz.index.json");
  for (const std::filesystem::path& path : files.paths) {
    if (path.parent_path() != "/models") __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    check_entries(bytes);
  } catch (const colibri::Error&) {
  }
  try {
    check_index(bytes);
  } catch (const colibri::Error&) {
  }
  return 0;
}
