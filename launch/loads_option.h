// --loads: how often experts are chosen, for --placement auto and for `colibri plan`.
#pragma once

#include <optional>
#include <string>

#include "topology/loads.h"

namespace colibri {

// "" and "uniform": nothing is known, all alike. "zipf:S": by Zipf's law in an order drawn for each
// layer. Otherwise a file of --record-loads, with
// the errors of read_loads.
std::optional<ExpertLoads> loads_named(const std::string& name, const ModelShape& shape);

}  // namespace colibri
