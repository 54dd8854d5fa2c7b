// The verb `inspect`: what a checkpoint holds, without loading it.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// Prints to stdout; returns the exit code.
int inspect(const RunConfig& config);

}  // namespace colibri
