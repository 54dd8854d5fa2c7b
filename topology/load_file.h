// The text form of expert loads (docs/placement.md): what --record-loads writes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "topology/loads.h"

namespace colibri {

// JSON, one line a layer and phase. parse_loads(loads_text(l)) == l. Pairs that never came together
// are left out.
std::string loads_text(const ExpertLoads& loads);

// `where` (a path) begins every message. Errors: kInput for text that is no such file (key, what
// came, what was wanted) and for loads of another model, both named; kUnsupported for another
// version.
ExpertLoads parse_loads(std::string_view text, const std::string& where, const ModelShape& shape);

// Of whatever model the text names, for showing: layers up to the last one it has, the others
// empty. At most 4096 layers, 16384 experts and 1 GB for pairs: kInput.
ExpertLoads parse_loads(std::string_view text, const std::string& where);

// kEnvironment when the file cannot be read; otherwise as parse_loads.
ExpertLoads read_loads(const std::filesystem::path& path, const ModelShape& shape);
ExpertLoads read_loads(const std::filesystem::path& path);

// Writes under a temporary name and renames. kEnvironment when that fails.
void write_loads(const std::filesystem::path& path, const ExpertLoads& loads);

}  // namespace colibri
