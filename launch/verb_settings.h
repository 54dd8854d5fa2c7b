// Between CLI11's options and configuration files: a file's values into options, options as a file.
#pragma once

#include <string>
#include <vector>

#include "launch/config_file.h"

namespace CLI {
class App;
}

namespace colibri {

// Gives the options of `verb` that neither the command line nor a variable has set the file's
// values; a table's win over the top level's. A file's value also stands back when the command line
// gives what it would contradict: --shape for a file's model, another form of prompt or document.
// Settings of other verbs are checked, not applied. Call after `app` has parsed. `where` is the
// file. Errors: kInput naming file, line and key for a table that is no verb, a key that no verb
// (or not this verb) has, and a value of another type than the option's.
void apply_settings(const CLI::App& app, CLI::App& verb, const std::vector<ConfigSetting>& settings,
                    const std::string& where);

// The verb's configuration as the options stand: a TOML file that gives the same when it is read.
std::string settings_text(const CLI::App& verb);

}  // namespace colibri
