// Writes a checkpoint as one .colibri file.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// Runs the verb; returns the exit code.
int convert(const ConvertOptions& options);

}  // namespace colibri
