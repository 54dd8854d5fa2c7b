#include "launch/loads_option.h"

#include <filesystem>

#include "base/error.h"
#include "launch/plan_input.h"
#include "topology/load_file.h"

namespace colibri {

std::optional<ExpertLoads> loads_named(const std::string& name, const ModelShape& shape) {
  if (name.empty() || name == "uniform") return std::nullopt;
  if (!name.starts_with("zipf:")) {
    std::error_code code;
    if (std::filesystem::is_regular_file(name, code)) return read_loads(name, shape);
    fail(ErrorKind::kInput, "--loads is '", name,
         "', want uniform, zipf:S with S from 0 to 20, or a file of --record-loads");
  }
  ExpertLoads loads = empty_loads(shape, false);
  const std::vector<std::vector<double>> shares = shares_named(name, shape);
  constexpr double kCertain = 1e9;  // tokens: nothing is left to chance
  for (size_t layer = 0; layer < shares.size(); ++layer) {
    LayerLoads& of_layer = loads.phases[static_cast<size_t>(LoadPhase::kDecode)][layer];
    of_layer.num_tokens = of_layer.tokens.empty() ? 0 : kCertain;
    for (size_t e = 0; e < of_layer.tokens.size(); ++e) {
      of_layer.tokens[e] = kCertain * shares[layer][e];
    }
  }
  return loads;
}

}  // namespace colibri
