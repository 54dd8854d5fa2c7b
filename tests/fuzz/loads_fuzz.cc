// The bytes are a file of expert loads: it either gives loads that are chances, can be merged,
// written and read again, or throws Error with kInput or kUnsupported.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "tests/fuzz/made_up_model.h"
#include "topology/load_file.h"

namespace {

using namespace colibri;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void use(const ExpertLoads& loads, const ModelShape& shape) {
  for (int layer = 1; layer < shape.num_layers; ++layer) {
    for (const double share : expert_shares(&loads, shape, layer)) {
      require(std::isfinite(share) && share >= 0 && share <= 1 + 1e-6);
    }
  }
  require(parse_loads(loads_text(loads), "again", shape) == loads);
  ExpertLoads sum = loads;
  merge_loads(sum, loads, 0.5);
}

// Of whatever model the text names.
void parse_alone(std::string_view text) {
  const ExpertLoads loads = parse_loads(text, "fuzz.json");
  require(parse_loads(loads_text(loads), "again").family == loads.family);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ModelShape shape = made_up_model(4);
  ExpertLoads loads;
  try {
    parse_alone(text);
    loads = parse_loads(text, "fuzz.json", shape);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kUnsupported);
    return 0;
  }
  use(loads, shape);
  return 0;
}
