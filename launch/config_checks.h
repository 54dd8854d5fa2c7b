// What the command line must say to make sense.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// Errors: kInput with what came and what was wanted; kUnsupported for valid values this build
// lacks.
void check_config(const RunConfig& config);

}  // namespace colibri
