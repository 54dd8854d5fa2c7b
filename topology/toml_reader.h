// Reads the tables of a TOML file with a check on every value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// A text and a number as TOML writes them; a number comes back as the same bits.
std::string toml_quoted(const std::string& text);
std::string toml_number(double value);

// One table. Each getter names the key, its line, what came and what was wanted (kInput). end()
// fails for a key that nobody asked for.
class TomlReader {
 public:
  // The root of `text`, at most 4 MiB. kInput, `where` first, with the line of what is no TOML.
  TomlReader(std::string_view text, std::string where);

  bool has(const std::string& key) const;
  std::vector<std::string> keys() const;
  std::string text(const std::string& key);
  std::string text_or(const std::string& key, const std::string& fallback) {
    return has(key) ? text(key) : fallback;
  }
  int64_t whole(const std::string& key, int64_t low, int64_t high);
  int64_t whole_or(const std::string& key, int64_t low, int64_t high, int64_t fallback) {
    return has(key) ? whole(key, low, high) : fallback;
  }
  double number(const std::string& key, double low, double high);
  double number_or(const std::string& key, double low, double high, double fallback) {
    return has(key) ? number(key, low, high) : fallback;
  }
  // {value = 3850, source = "where it comes from"}.
  double sourced(const std::string& key, double low, double high);
  double sourced_or(const std::string& key, double low, double high, double fallback) {
    return has(key) ? sourced(key, low, high) : fallback;
  }
  std::optional<TomlReader> table(const std::string& key);  // nothing: not there
  std::vector<TomlReader> tables(const std::string& key);   // [[key]]; none: not there
  void end() const;

  template <class... Parts>
  [[noreturn]] void wrong(const std::string& key, const Parts&... parts) const {
    std::ostringstream words;
    (words << ... << parts);
    throw_wrong(key, words.str());
  }

 private:
  struct Node;  // a table of the file, which it keeps alive
  TomlReader(std::shared_ptr<const Node> node, std::string where, std::string path)
      : node_(std::move(node)), where_(std::move(where)), path_(std::move(path)) {}
  [[noreturn]] void throw_wrong(const std::string& key, const std::string& words) const;

  std::shared_ptr<const Node> node_;
  std::string where_, path_;
  std::set<std::string> asked_;
};

}  // namespace colibri
