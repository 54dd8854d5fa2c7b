// Where the experts of a model should lie on a machine, and what a step would cost.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// Runs the verb; returns the exit code.
int plan(const RunConfig& config);

}  // namespace colibri
