#include "model/json_fields.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "model/printable.h"

namespace colibri {

JsonFields::JsonFields(const JsonValue& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (object.kind != JsonKind::kObject) {
    fail(ErrorKind::kInput, where_, ": ", object.describe(), ", want a JSON object");
  }
}

const JsonValue* JsonFields::find(std::string_view key) {
  const JsonValue* value = object_.find(key);
  if (value != nullptr) read_.emplace(key);
  return value;
}

bool JsonFields::has(std::string_view key) const {
  const JsonValue* value = object_.find(key);
  return value != nullptr && value->kind != JsonKind::kNull;
}

int64_t JsonFields::checked_int(std::string_view key, const JsonValue& value,
                                IntRange range) const {
  if (value.kind != JsonKind::kInteger || value.integer < range.min || value.integer > range.max) {
    fail(ErrorKind::kInput, where_, ": ", key, " is ", value.describe(), ", want an integer in [",
         range.min, ", ", range.max, "]");
  }
  return value.integer;
}

int64_t JsonFields::int_or(std::string_view key, int64_t fallback, IntRange range) {
  const JsonValue* value = find(key);
  return value == nullptr ? fallback : checked_int(key, *value, range);
}

std::optional<int64_t> JsonFields::optional_int(std::string_view key, IntRange range) {
  const JsonValue* value = find(key);
  if (value == nullptr || value->kind == JsonKind::kNull) return std::nullopt;
  return checked_int(key, *value, range);
}

double JsonFields::real_or(std::string_view key, double fallback, RealRange range) {
  const JsonValue* value = find(key);
  if (value == nullptr) return fallback;
  const bool is_number = value->kind == JsonKind::kInteger || value->kind == JsonKind::kReal;
  if (!is_number || !(value->real > range.above) || !(value->real <= range.max)) {
    fail(ErrorKind::kInput, where_, ": ", key, " is ", value->describe(), ", want a number above ",
         range.above, " and at most ", range.max);
  }
  return value->real;
}

std::optional<double> JsonFields::optional_real(std::string_view key, RealRange range) {
  const JsonValue* value = find(key);
  if (value == nullptr || value->kind == JsonKind::kNull) return std::nullopt;
  return real_or(key, 0, range);
}

bool JsonFields::bool_or(std::string_view key, bool fallback) {
  const JsonValue* value = find(key);
  if (value == nullptr) return fallback;
  if (value->kind != JsonKind::kBool) wrong(key, "true or false");
  return value->boolean;
}

std::string JsonFields::string_or(std::string_view key, const std::string& fallback) {
  const JsonValue* value = find(key);
  if (value == nullptr) return fallback;
  if (value->kind != JsonKind::kString) wrong(key, "a string");
  return value->text;
}

std::vector<int64_t> JsonFields::ints(std::string_view key, IntRange range) {
  const JsonValue* value = find(key);
  if (value == nullptr || value->kind == JsonKind::kNull) return {};
  if (value->kind == JsonKind::kInteger) return {checked_int(key, *value, range)};
  if (value->kind != JsonKind::kArray || value->items.size() > 1000) {
    wrong(key, "an integer or a list of at most 1000 integers");
  }
  std::vector<int64_t> result;
  for (const JsonValue& item : value->items) result.push_back(checked_int(key, item, range));
  return result;
}

std::vector<std::string> JsonFields::strings(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr || value->kind == JsonKind::kNull) return {};
  if (value->kind != JsonKind::kArray) wrong(key, "a list of strings");
  std::vector<std::string> result;
  for (const JsonValue& item : value->items) {
    if (item.kind != JsonKind::kString) wrong(key, "a list of strings");
    result.push_back(item.text);
  }
  return result;
}

void JsonFields::without_effect(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) read_.emplace(key);
}

void JsonFields::refuse_unread() const {
  std::string names;
  for (size_t i = 0; i < object_.keys.size(); ++i) {
    if (read_.count(object_.keys[i]) != 0) continue;
    if (names.size() > 300) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "" : ", ") + printable(object_.keys[i], 80) + " (" +
             object_.items[i].describe() + ")";
  }
  if (names.empty()) return;
  fail(
      ErrorKind::kUnsupported, where_, ": unknown key ", names,
      "; it could change what the model computes, so it is refused. Remove it if it has no effect");
}

void JsonFields::wrong(std::string_view key, std::string_view wanted) const {
  const JsonValue* value = object_.find(key);
  const std::string got = value == nullptr ? "absent" : value->describe();
  fail(ErrorKind::kInput, where_, ": ", key, " is ", got, ", want ", wanted);
}

void JsonFields::unsupported(std::string_view key, std::string_view why) const {
  const JsonValue* value = object_.find(key);
  const std::string got = value == nullptr ? "absent" : value->describe();
  fail(ErrorKind::kUnsupported, where_, ": ", key, " is ", got, ": ", why);
}

}  // namespace colibri
