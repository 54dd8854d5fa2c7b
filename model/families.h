// One reader a family: config.json of transformers' class `model_type` as a ModelConfig.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "model/json_fields.h"

namespace colibri {

// The families by model_type. kimi_k2 is read as deepseek_v3.
std::vector<std::string> family_names();

// Reads every key of `fields`, absent ones by the default of the family's configuration class.
// Fails with kUnsupported for an unknown `model_type` and for keys or values without an equal here.
ModelConfig read_family(const std::string& model_type, JsonFields& fields);

}  // namespace colibri
