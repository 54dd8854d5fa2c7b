// A configuration file (--config FILE): TOML whose keys are option names without dashes.
//
//   model = "DIR"           # at the top: for every verb that has the option
//   max_context = 4096      # "_" and "-" are the same
//   [bench]                 # for one verb; wins over the top
//   batch = [1, 4, 16]
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace colibri {

enum class ConfigValueKind { kText, kInteger, kFloat, kBoolean };

struct ConfigValue {
  ConfigValueKind kind = ConfigValueKind::kText;
  std::string text;  // as the command line would have it
};

struct ConfigSetting {
  std::string verb;  // the table; empty: top level
  std::string key;   // with hyphens, without dashes in front
  bool is_list = false;
  std::vector<ConfigValue> values;  // one, unless it is a list
  int line = 0;
};

// All settings in the order of the file's lines. Errors: kInput naming file and line when it cannot
// be read, is no TOML, holds a date or a table where a value belongs, or has a key twice.
std::vector<ConfigSetting> read_config_file(const std::filesystem::path& path);

// `text` as a TOML string, quotes included.
std::string toml_string(const std::string& text);

}  // namespace colibri
