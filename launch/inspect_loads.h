// `inspect --loads`: what a file of expert loads holds, layer by layer.
#pragma once

#include <string>

#include "launch/run_config.h"
#include "topology/loads.h"

namespace colibri {

// A line for the model, one for the tokens, a line a layer, then the busiest experts and the
// strongest pairs of all layers (docs/placement.md). Prompts and decoding are added up.
std::string loads_summary(const ExpertLoads& loads);

// Prints that of options.loads; returns the exit code. Errors: those of read_loads.
int inspect_loads(const InspectOptions& options);

}  // namespace colibri
