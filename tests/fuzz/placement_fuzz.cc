// The bytes are a placement: it either gives every expert a slot, and can be written and read
// again, or throws Error with kInput.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "tests/fuzz/made_up_model.h"
#include "topology/placement_file.h"

namespace {

using namespace colibri;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void use(const Placement& placement, const ModelShape& shape) {
  for (int layer = 1; layer < shape.num_layers; ++layer) {
    for (int expert = 0; expert < shape.num_experts; ++expert) {
      require(!placement.slots_of(layer, expert).empty());
      for (const SlotRef& slot : placement.slots_of(layer, expert)) {
        const auto held = placement.experts_of(layer, slot.rank);
        require(held[static_cast<size_t>(slot.slot)] == expert);
      }
    }
  }
  require(parse_placement(placement_text(placement, shape), "again", shape) == placement);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ModelShape shape = made_up_model(3);
  try {
    use(parse_placement({reinterpret_cast<const char*>(data), size}, "fuzz.json", shape), shape);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput);
  }
  return 0;
}
