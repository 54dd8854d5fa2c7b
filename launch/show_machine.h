// The machine as colibri sees it, or as a file describes it: text and picture.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// Runs the verb; returns the exit code.
int show_machine(const RunConfig& config);

}  // namespace colibri
