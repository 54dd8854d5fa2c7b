#include "model/json_value.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "model/printable.h"

namespace colibri {
namespace {

class DocumentBuilder : public JsonEvents {
 public:
  DocumentBuilder(const std::string& where, size_t max_values, JsonValue& root)
      : where_(where), max_values_(max_values), root_(root) {}

  void scalar(JsonScalar& value) override {
    JsonValue& made = add(value.kind);
    made.boolean = value.boolean;
    made.integer = value.integer;
    const bool is_integer = value.kind == JsonKind::kInteger;
    made.real = is_integer ? static_cast<double>(value.integer) : value.real;
    made.text = value.text;
  }
  void key(std::string& name) override {
    if (!seen_.back().insert(name).second) {
      fail(ErrorKind::kInput, where_, ": key \"", printable(name, 80), "\" stands twice");
    }
    key_ = name;
  }
  void begin(JsonKind kind) override {
    open_.push_back(&add(kind));
    seen_.emplace_back();
  }
  void end() override {
    open_.pop_back();
    seen_.pop_back();
  }

 private:
  JsonValue& add(JsonKind kind) {
    if (++num_values_ > max_values_) {
      fail(ErrorKind::kInput, where_, ": more than ", max_values_, " JSON values");
    }
    JsonValue* made = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      if (parent.kind == JsonKind::kObject) parent.keys.push_back(key_);
      made = &parent.items.emplace_back();
    }
    made->kind = kind;
    return *made;
  }

  const std::string& where_;
  size_t max_values_, num_values_ = 0;
  JsonValue& root_;
  std::vector<JsonValue*> open_;  // the path to the value being filled; siblings come after it
  std::vector<std::unordered_set<std::string>> seen_;
  std::string key_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto at = std::find(keys.begin(), keys.end(), key);
  return at == keys.end() ? nullptr : &items[static_cast<size_t>(at - keys.begin())];
}

std::string JsonValue::describe() const {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return boolean ? "true" : "false";
    case JsonKind::kInteger:
    case JsonKind::kReal:
      return text.substr(0, 40);
    case JsonKind::kString:
      return std::string(1, '"').append(printable(text, 60)).append(1, '"');
    case JsonKind::kArray:
      return "a list of " + std::to_string(items.size());
    case JsonKind::kObject:
      return "an object of " + std::to_string(items.size()) + " keys";
  }
  return "unknown";
}

JsonValue parse_json(std::string_view text, const std::string& where, size_t max_values) {
  JsonValue root;
  DocumentBuilder builder(where, max_values, root);
  parse_json_events(text, where, builder);
  return root;
}

}  // namespace colibri
