#include "launch/config_file.h"

#include <fmt/format.h>
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/toml_check.h"

namespace colibri {
namespace {

constexpr uintmax_t kMaxFileBytes = 1 << 20;

std::string read_small_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    fail(ErrorKind::kInput, "--config ", path.string(), ": ",
         error ? error.message() : "not a file", "; want a TOML file");
  }
  if (std::filesystem::file_size(path, error) > kMaxFileBytes) {
    fail(ErrorKind::kInput, "--config ", path.string(), ": more than ", kMaxFileBytes, " bytes");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad()) {
    fail(ErrorKind::kInput, "--config ", path.string(), ": cannot be read; want a TOML file");
  }
  return text.str();
}

class SettingsReader {
 public:
  explicit SettingsReader(const std::string& path) : path_(path) {}

  std::vector<ConfigSetting> read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      if (const toml::table* verb = node.as_table()) {
        for (const auto& [inner, value] : *verb) add(std::string(key.str()), inner, value);
      } else {
        add("", key, node);
      }
    }
    std::stable_sort(settings_.begin(), settings_.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return std::move(settings_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void wrong(int line, const Parts&... parts) const {
    fail(ErrorKind::kInput, path_, " line ", line, ": ", parts...);
  }

  void add(const std::string& verb, const toml::key& key, const toml::node& node) {
    ConfigSetting setting;
    setting.verb = verb;
    setting.key = std::string(key.str());
    std::replace(setting.key.begin(), setting.key.end(), '_', '-');
    setting.line = static_cast<int>(key.source().begin.line);
    for (const ConfigSetting& other : settings_) {
      if (other.verb != verb || other.key != setting.key) continue;
      wrong(setting.line, "key '", setting.key, "' is given twice, also in line ", other.line);
    }
    if (const toml::array* list = node.as_array()) {
      setting.is_list = true;
      for (const toml::node& item : *list) setting.values.push_back(value_of(item, setting));
      if (setting.values.empty()) wrong(setting.line, "key '", setting.key, "' is an empty list");
    } else {
      setting.values.push_back(value_of(node, setting));
    }
    settings_.push_back(std::move(setting));
  }

  ConfigValue value_of(const toml::node& node, const ConfigSetting& setting) const {
    if (const auto* text = node.as_string()) return {ConfigValueKind::kText, text->get()};
    if (const auto* number = node.as_integer()) {
      return {ConfigValueKind::kInteger, std::to_string(number->get())};
    }
    if (const auto* number = node.as_floating_point()) {
      return {ConfigValueKind::kFloat, fmt::format("{}", number->get())};
    }
    if (const auto* flag = node.as_boolean()) {
      return {ConfigValueKind::kBoolean, flag->get() ? "true" : "false"};
    }
    wrong(setting.line, "key '", setting.key, "' holds a ",
          node.is_table()   ? "table"
          : node.is_array() ? "list in a list"
                            : "date or time",
          ", want a string, a number, true, false or a list of these");
  }

  std::string path_;
  std::vector<ConfigSetting> settings_;
};

}  // namespace

std::vector<ConfigSetting> read_config_file(const std::filesystem::path& path) {
  const std::string text = read_small_file(path);
  if (const auto trap = find_toml_trap(text)) {
    fail(ErrorKind::kInput, path.string(), " line ", trap->line, ": ", trap->what,
         "; want option names, which have none");
  }
  try {
    return SettingsReader(path.string()).read(toml::parse(std::string_view(text)));
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::kInput, path.string(), " line ", error.source().begin.line,
         " is no TOML: ", error.description());
  }
}

std::string toml_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace colibri
