// Every environment variable of colibri, once: name, allowed values, default, meaning. A flag
// --foo-bar can also be given as COLIBRI_FOO_BAR; the command line reads those itself.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

struct EnvVariable {
  std::string_view name;
  std::string_view values;         // what it may hold, for people
  std::string_view default_value;  // what unset means
  std::string_view help;
  bool is_private = false;  // set by colibri for its own processes, not by people
};

// All variables that are not flags, by name.
std::span<const EnvVariable> env_variables();

// The value; empty when the variable is unset or holds nothing. Call while no thread changes the
// environment. Fails with kInternal for a name that is not in the list above.
std::optional<std::string> read_env(std::string_view name);

// "--foo-bar" or "foo-bar" -> "COLIBRI_FOO_BAR".
std::string env_name_of_flag(std::string_view flag);

// The COLIBRI_* names of `environment` ("NAME=value" each, as in environ) that are neither listed
// above nor the variable of one of `flags`, ascending: a misspelt variable must not be silent.
std::vector<std::string> unknown_env_variables(std::span<const std::string> environment,
                                               std::span<const std::string> flags);

// This process's environment, as unknown_env_variables() wants it.
std::vector<std::string> current_environment();

}  // namespace colibri
