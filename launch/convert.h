// Writes a checkpoint as one .colibri file.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// Runs the verb; returns the exit code. Progress goes to stderr, one line about the result to
// stdout. INT and TERM end it soon; running it again goes on. Errors: as convert_checkpoint.
int convert(const ConvertOptions& options);

}  // namespace colibri
