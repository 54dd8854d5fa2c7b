// Reads the tables of a TOML file with a check on every value. Only for .cc files of this folder.
#pragma once

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <set>
#include <string>
#include <string_view>

namespace colibri {

// Parses `text`, at most 4 MiB. kInput, `where` first, with the line of what is no TOML.
toml::table parse_toml(std::string_view text, const std::string& where);

// A text and a number as TOML writes them; a number comes back as the same bits.
std::string toml_quoted(const std::string& text);
std::string toml_number(double value);

// One table. Each getter names the key, its line, what came and what was wanted (kInput). end()
// fails for a key that nobody asked for.
class TomlReader {
 public:
  // All outlive it. `path`: the table's name, as "device.h200".
  TomlReader(const toml::table& table, const std::string& where, std::string path)
      : table_(table), where_(where), path_(std::move(path)) {}

  bool has(const char* key) const { return table_.contains(key); }
  std::string text(const char* key);
  std::string text_or(const char* key, const std::string& fallback) {
    return has(key) ? text(key) : fallback;
  }
  int64_t whole(const char* key, int64_t low, int64_t high);
  int64_t whole_or(const char* key, int64_t low, int64_t high, int64_t fallback) {
    return has(key) ? whole(key, low, high) : fallback;
  }
  double number(const char* key, double low, double high);
  // {value = 3850, source = "where it comes from"}.
  double sourced(const char* key, double low, double high);
  double sourced_or(const char* key, double low, double high, double fallback) {
    return has(key) ? sourced(key, low, high) : fallback;
  }
  const toml::table* table_or_null(const char* key);
  const toml::array* tables_or_null(const char* key);  // [[key]]
  void end() const;

  template <class... Parts>
  [[noreturn]] void wrong(const char* key, const Parts&... parts) const;

 private:
  const toml::node& need(const char* key);

  const toml::table& table_;
  const std::string& where_;
  std::string path_;
  std::set<std::string> asked_;
};

}  // namespace colibri

#include "base/error.h"

namespace colibri {

template <class... Parts>
void TomlReader::wrong(const char* key, const Parts&... parts) const {
  const toml::node* node = table_.get(key);
  const auto line = (node != nullptr ? node->source() : table_.source()).begin.line;
  fail(ErrorKind::kInput, where_, " line ", line, ": ", path_, path_.empty() ? "" : ".", key, " ",
       parts...);
}

}  // namespace colibri
