// Shapes of released models by name, for benchmarks, plans and simulation without a checkpoint.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace colibri {

// "mixtral-8x7b", "qwen3-235b-a22b", ... Empty for an unknown name. Numbers are those of the
// released config.json; token ids are left out.
std::optional<ModelConfig> named_shape(std::string_view name);

// All names, in the order of size.
std::vector<std::string> shape_names();

}  // namespace colibri
