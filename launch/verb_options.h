// The options of every verb.
#pragma once

#include <map>
#include <string>

#include "launch/run_config.h"

namespace CLI {
class App;
}

namespace colibri {

// Each verb has a configuration of its own: CLI11 reads the variables of every verb, given or not.
using VerbConfigs = std::map<std::string, RunConfig>;

// Adds one subcommand a verb, whose options write into `configs[verb]`; `configs` outlives `app`.
// An option with a default can be given as a COLIBRI_* variable too.
void add_verbs(CLI::App& app, VerbConfigs& configs);

}  // namespace colibri
