#include "launch/verb_settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace colibri {
namespace {

// What the command line gives, and what of a file then stands back.
struct Contradiction {
  std::vector<std::string> given;
  std::vector<std::string> stands_back;
};

const std::vector<Contradiction>& contradictions() {
  static const std::vector<Contradiction> kAll = {
      {{"model"}, {"shape", "layers", "scale-vocab"}},
      {{"shape"}, {"model"}},
      {{"prompt", "prompt-file", "prompt-ids", "prompts"},
       {"prompt", "prompt-file", "prompt-ids", "prompts"}},
      {{"document", "document-file"}, {"document", "document-file", "requests"}},
      {{"requests"}, {"document", "document-file", "continuation"}},
      {{"continuation"}, {"requests"}},
      {{"ids"}, {"json"}},
      {{"json"}, {"ids"}}};
  return kAll;
}

// Options that say what to do with a configuration are no part of one.
bool is_setting(const CLI::Option& option) {
  static const std::vector<std::string> kOthers = {"help", "config", "print-config"};
  return std::find(kOthers.begin(), kOthers.end(), option.get_single_name()) == kOthers.end();
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

const CLI::Option* find_option(const CLI::App& verb, const std::string& key) {
  for (const CLI::Option* option : verb.get_options()) {
    if (is_setting(*option) && option->get_single_name() == key) return option;
  }
  return nullptr;
}

// In words, what a file must hold for this option.
std::string wanted_by(const CLI::Option& option) {
  if (is_flag(option)) return "true or false";
  const std::string type = option.get_type_name();
  const bool many = option.get_items_expected_max() > 1;
  const std::string one = type == "TEXT" ? "a string" : type == "FLOAT" ? "a number" : "an integer";
  return many ? one + " or a list of such" : one;
}

bool fits(const CLI::Option& option, const ConfigValue& value) {
  if (is_flag(option)) return value.kind == ConfigValueKind::kBoolean;
  const std::string type = option.get_type_name();
  switch (value.kind) {
    case ConfigValueKind::kBoolean:
      return false;
    case ConfigValueKind::kText:
      // Text also carries integers that TOML's 64 bits with a sign do not.
      return type == "TEXT" || type == "UINT";
    case ConfigValueKind::kInteger:
      return type != "TEXT";
    case ConfigValueKind::kFloat:
      return type == "FLOAT";
  }
  return false;
}

std::string shown(const ConfigSetting& setting) {
  std::string text;
  for (const ConfigValue& value : setting.values) {
    if (!text.empty()) text += ", ";
    text += value.kind == ConfigValueKind::kText ? toml_string(value.text) : value.text;
  }
  return setting.is_list ? "[" + text + "]" : text;
}

class Settings {
 public:
  Settings(const CLI::App& app, CLI::App& verb, const std::string& where)
      : app_(app), verb_(verb), where_(where) {}

  void check(const ConfigSetting& setting) const;
  void apply(const std::vector<ConfigSetting>& settings);

 private:
  template <class... Parts>
  [[noreturn]] void wrong(const ConfigSetting& setting, const Parts&... parts) const {
    fail(ErrorKind::kInput, where_, " line ", setting.line, ": ", parts...);
  }
  void check_value(const ConfigSetting& setting, const CLI::Option& option) const;
  bool stands_back(const std::string& key) const;
  void set(const ConfigSetting& setting, CLI::Option& option) const;

  const CLI::App& app_;
  CLI::App& verb_;
  std::string where_;
  std::vector<std::string> given_;  // by the command line or a variable
};

void Settings::check(const ConfigSetting& setting) const {
  std::string verbs;
  bool is_verb = setting.verb.empty(), is_known = false;
  for (const CLI::App* verb : app_.get_subcommands({})) {
    verbs += (verbs.empty() ? "" : ", ") + verb->get_name();
    if (!setting.verb.empty() && verb->get_name() != setting.verb) continue;
    is_verb = true;
    const CLI::Option* option = find_option(*verb, setting.key);
    if (option == nullptr) continue;
    is_known = true;
    check_value(setting, *option);
  }
  if (!is_verb) wrong(setting, "table [", setting.verb, "], want one of ", verbs);
  if (is_known) return;
  if (setting.verb.empty()) {
    wrong(setting, "key '", setting.key, "' is an option of no verb; see colibri VERB --help");
  }
  wrong(setting, "key '", setting.key, "' is no option of ", setting.verb, "; see colibri ",
        setting.verb, " --help");
}

void Settings::check_value(const ConfigSetting& setting, const CLI::Option& option) const {
  const bool may_be_list = !is_flag(option) && option.get_items_expected_max() > 1;
  const bool fit = std::all_of(setting.values.begin(), setting.values.end(),
                               [&](const ConfigValue& value) { return fits(option, value); });
  if (fit && (may_be_list || !setting.is_list)) return;
  wrong(setting, "key '", setting.key, "' is ", shown(setting), ", want ", wanted_by(option));
}

bool Settings::stands_back(const std::string& key) const {
  const auto holds = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (holds(given_, key)) return true;
  return std::any_of(contradictions().begin(), contradictions().end(), [&](const auto& pair) {
    const bool applies = std::any_of(pair.given.begin(), pair.given.end(),
                                     [&](const auto& name) { return holds(given_, name); });
    return applies && holds(pair.stands_back, key);
  });
}

void Settings::set(const ConfigSetting& setting, CLI::Option& option) const {
  try {
    if (is_flag(option)) {
      if (setting.values[0].text == "true") {
        option.add_result(option.get_flag_value(setting.key, "true"));
      }
    } else {
      for (const ConfigValue& value : setting.values) option.add_result(value.text);
    }
    if (option.count() > 0) option.run_callback();
  } catch (const CLI::ParseError&) {
    wrong(setting, "key '", setting.key, "' is ", shown(setting), ", want ", wanted_by(option));
  }
}

void Settings::apply(const std::vector<ConfigSetting>& settings) {
  for (const CLI::Option* option : verb_.get_options()) {
    if (option->count() > 0) given_.push_back(option->get_single_name());
  }
  // Tables first: what they set, the top level does not.
  for (const bool tables : {true, false}) {
    for (const ConfigSetting& setting : settings) {
      if (setting.verb.empty() == tables) continue;
      if (tables && setting.verb != verb_.get_name()) continue;
      const CLI::Option* option = find_option(verb_, setting.key);
      if (option == nullptr || stands_back(setting.key)) continue;
      set(setting, *verb_.get_option(option->get_name()));
      if (!tables) continue;
      given_.push_back(setting.key);
    }
  }
}

template <class T>
std::vector<T> results_of(const CLI::Option& option) {
  std::vector<T> values;
  option.results(values);
  return values;
}

// The option's values, given or default, as TOML; none when it has neither.
std::vector<std::string> toml_values(const CLI::Option& option) {
  std::vector<std::string> values;
  if (option.count() == 0 && option.get_default_str().empty()) return values;
  const std::string type = option.get_type_name();
  if (type == "TEXT") {
    const std::vector<std::string> defaults = {option.get_default_str()};
    for (const std::string& text : option.count() > 0 ? option.results() : defaults) {
      values.push_back(toml_string(text));
    }
  } else if (type == "FLOAT") {
    for (const double number : results_of<double>(option)) {
      values.push_back(fmt::format("{}", number));
    }
  } else if (type == "UINT") {
    for (const uint64_t number : results_of<uint64_t>(option)) {
      const std::string text = std::to_string(number);
      values.push_back(number > uint64_t{INT64_MAX} ? toml_string(text) : text);
    }
  } else {
    for (const int64_t number : results_of<int64_t>(option)) {
      values.push_back(std::to_string(number));
    }
  }
  return values;
}

std::string setting_line(const CLI::Option& option) {
  const std::string& name = option.get_single_name();
  if (is_flag(option)) {
    // A flag given as --greedy=false is none.
    const bool given =
        option.count() > 0 && option.results().back() == option.get_flag_value(name, "true");
    return given ? name + " = true\n" : "";
  }
  const std::vector<std::string> values = toml_values(option);
  if (values.empty()) return "";
  if (option.get_items_expected_max() == 1) return name + " = " + values.back() + "\n";
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ", ") + value;
  return name + " = [" + list + "]\n";
}

}  // namespace

void apply_settings(const CLI::App& app, CLI::App& verb, const std::vector<ConfigSetting>& settings,
                    const std::string& where) {
  Settings reader(app, verb, where);
  for (const ConfigSetting& setting : settings) reader.check(setting);
  reader.apply(settings);
}

std::string settings_text(const CLI::App& verb) {
  std::string text = "[" + verb.get_name() + "]\n";
  for (const CLI::Option* option : verb.get_options()) {
    if (is_setting(*option)) text += setting_line(*option);
  }
  return text;
}

}  // namespace colibri
