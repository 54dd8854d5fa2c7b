#include "topology/toml_reader.h"

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
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

toml::table parse(std::string_view text, const std::string& where) {
  if (text.size() > kMaxBytes) {
    fail(ErrorKind::kInput, where, ": ", text.size(), " bytes, want at most ", kMaxBytes);
  }
  if (const auto trap = find_toml_trap(text)) {
    fail(ErrorKind::kInput, where, " line ", trap->line, ": ", trap->what);
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::kInput, where, " line ", error.source().begin.line,
         " is no TOML: ", error.description());
  }
}

}  // namespace

struct TomlReader::Node {
  std::shared_ptr<const toml::table> file;
  const toml::table* table = nullptr;
};

std::string toml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      quoted += escape;
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string toml_number(double value) {
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  if (error != std::errc()) fail(ErrorKind::kInternal, "a number of more than 40 characters");
  return std::string(text, end);
}

TomlReader::TomlReader(std::string_view text, std::string where) : where_(std::move(where)) {
  const auto file = std::make_shared<const toml::table>(parse(text, where_));
  node_ = std::make_shared<const Node>(Node{file, file.get()});
}

void TomlReader::throw_wrong(const std::string& key, const std::string& words) const {
  const toml::node* node = node_->table->get(key);
  const auto line = (node != nullptr ? node->source() : node_->table->source()).begin.line;
  fail(ErrorKind::kInput, where_, " line ", line, ": ", path_, path_.empty() ? "" : ".", key, " ",
       words);
}

bool TomlReader::has(const std::string& key) const { return node_->table->contains(key); }

std::vector<std::string> TomlReader::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, node] : *node_->table) keys.emplace_back(key.str());
  return keys;
}

std::string TomlReader::text(const std::string& key) {
  asked_.insert(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) wrong(key, "is missing");
  if (!node->is_string()) wrong(key, "is ", kind_of(*node), ", want a text");
  const std::string& value = node->as_string()->get();
  if (value.size() > 4096) wrong(key, "has ", value.size(), " bytes, want at most 4096");
  return value;
}

int64_t TomlReader::whole(const std::string& key, int64_t low, int64_t high) {
  asked_.insert(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) wrong(key, "is missing");
  if (!node->is_integer()) wrong(key, "is ", kind_of(*node), ", want a whole number");
  const int64_t value = node->as_integer()->get();
  if (value < low || value > high) wrong(key, "is ", value, ", want ", low, " to ", high);
  return value;
}

double TomlReader::number(const std::string& key, double low, double high) {
  asked_.insert(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) wrong(key, "is missing");
  const auto value = node->value<double>();
  if (!value || !node->is_number()) wrong(key, "is ", kind_of(*node), ", want a number");
  if (!std::isfinite(*value) || *value < low || *value > high) {
    wrong(key, "is ", *value, ", want ", low, " to ", high);
  }
  return *value;
}

double TomlReader::sourced(const std::string& key, double low, double high) {
  asked_.insert(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) wrong(key, "is missing");
  if (!node->is_table()) {
    wrong(key, "is ", kind_of(*node), ", want {value = NUMBER, source = \"where it comes from\"}");
  }
  TomlReader inner = *table(key);
  const double value = inner.number("value", low, high);
  if (inner.text("source").empty()) wrong(key, "has an empty source");
  inner.end();
  return value;
}

std::optional<TomlReader> TomlReader::table(const std::string& key) {
  asked_.insert(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_table()) wrong(key, "is ", kind_of(*node), ", want a table");
  return TomlReader(std::make_shared<const Node>(Node{node_->file, node->as_table()}), where_,
                    path_ + (path_.empty() ? "" : ".") + key);
}

std::vector<TomlReader> TomlReader::tables(const std::string& key) {
  asked_.insert(key);
  const toml::node* node = node_->table->get(key);
  std::vector<TomlReader> list;
  if (node == nullptr) return list;
  if (!node->is_array() || !node->as_array()->is_array_of_tables()) {
    wrong(key, "is ", kind_of(*node), ", want tables [[", key, "]]");
  }
  for (const toml::node& each : *node->as_array()) {
    list.push_back(TomlReader(std::make_shared<const Node>(Node{node_->file, each.as_table()}),
                              where_, path_ + (path_.empty() ? "" : ".") + key));
  }
  return list;
}

void TomlReader::end() const {
  for (const auto& [key, node] : *node_->table) {
    const std::string name(key.str());
    if (asked_.contains(name)) continue;
    std::string known;
    for (const std::string& each : asked_) known += (known.empty() ? "" : ", ") + each;
    fail(ErrorKind::kInput, where_, " line ", key.source().begin.line, ": ", path_,
         path_.empty() ? "" : ".", name, " is not known here; known are ", known);
  }
}

}  // namespace colibri
