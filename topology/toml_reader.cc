#include "topology/toml_reader.h"

#include <charconv>
#include <cmath>

#include "base/toml_check.h"

namespace colibri {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;

const char* kind_of(const toml::node& node) {
  if (node.is_string()) return "a text";
  if (node.is_integer() || node.is_floating_point()) return "a number";
  if (node.is_boolean()) return "true or false";
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  return "a date or time";
}

}  // namespace

toml::table parse_toml(std::string_view text, const std::string& where) {
  if (text.size() > kMaxBytes) {
    fail(ErrorKind::kInput, where, ": ", text.size(), " bytes, want at most ", kMaxBytes);
  }
  if (const int line = line_of_long_toml_key(text); line > 0) {
    fail(ErrorKind::kInput, where, " line ", line, ": a key with many dots");
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::kInput, where, " line ", error.source().begin.line,
         " is no TOML: ", error.description());
  }
}

std::string toml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return quoted + '"';
}

std::string toml_number(double value) {
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  if (error != std::errc()) fail(ErrorKind::kInternal, "a number of more than 40 characters");
  const std::string_view written(text, static_cast<size_t>(end - text));
  return std::string(written);
}

const toml::node& TomlReader::need(const char* key) {
  asked_.insert(key);
  const toml::node* node = table_.get(key);
  if (node == nullptr) wrong(key, "is missing");
  return *node;
}

std::string TomlReader::text(const char* key) {
  const toml::node& node = need(key);
  if (!node.is_string()) wrong(key, "is ", kind_of(node), ", want a text");
  const std::string& value = node.as_string()->get();
  if (value.size() > 4096) wrong(key, "has ", value.size(), " bytes, want at most 4096");
  return value;
}

int64_t TomlReader::whole(const char* key, int64_t low, int64_t high) {
  const toml::node& node = need(key);
  if (!node.is_integer()) wrong(key, "is ", kind_of(node), ", want a whole number");
  const int64_t value = node.as_integer()->get();
  if (value < low || value > high) wrong(key, "is ", value, ", want ", low, " to ", high);
  return value;
}

double TomlReader::number(const char* key, double low, double high) {
  const toml::node& node = need(key);
  const auto value = node.value<double>();
  if (!value || !(node.is_integer() || node.is_floating_point())) {
    wrong(key, "is ", kind_of(node), ", want a number");
  }
  if (!std::isfinite(*value) || *value < low || *value > high) {
    wrong(key, "is ", *value, ", want ", low, " to ", high);
  }
  return *value;
}

double TomlReader::sourced(const char* key, double low, double high) {
  const toml::node& node = need(key);
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    wrong(key, "is ", kind_of(node), ", want {value = NUMBER, source = \"where it comes from\"}");
  }
  TomlReader inner(*table, where_, path_ + "." + key);
  const double value = inner.number("value", low, high);
  if (inner.text("source").empty()) wrong(key, "has an empty source");
  inner.end();
  return value;
}

const toml::table* TomlReader::table_or_null(const char* key) {
  if (!has(key)) return nullptr;
  const toml::node& node = need(key);
  if (!node.is_table()) wrong(key, "is ", kind_of(node), ", want a table");
  return node.as_table();
}

const toml::array* TomlReader::tables_or_null(const char* key) {
  if (!has(key)) return nullptr;
  const toml::node& node = need(key);
  if (!node.is_array() || !node.as_array()->is_array_of_tables()) {
    wrong(key, "is ", kind_of(node), ", want tables [[", key, "]]");
  }
  return node.as_array();
}

void TomlReader::end() const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (asked_.contains(name)) continue;
    std::string known;
    for (const std::string& each : asked_) known += (known.empty() ? "" : ", ") + each;
    fail(ErrorKind::kInput, where_, " line ", key.source().begin.line, ": ", path_,
         path_.empty() ? "" : ".", name, " is not known here; known are ", known);
  }
}

}  // namespace colibri
