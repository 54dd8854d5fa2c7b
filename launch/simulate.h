// What a step of a model would cost on machines one need not own.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// Runs the verb; returns the exit code.
int simulate(const RunConfig& config);

}  // namespace colibri
