// The options of every verb.
#pragma once

#include <CLI/CLI.hpp>

#include "launch/run_config.h"

namespace colibri {

// Adds one subcommand a verb, whose options write into `config`, which outlives `app`. An option
// with a default can be given as a COLIBRI_* variable too.
void add_verbs(CLI::App& app, RunConfig& config);

}  // namespace colibri
