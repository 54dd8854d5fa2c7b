// A small JSON document in memory, for configuration files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/json_events.h"

namespace colibri {

struct JsonValue {
  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;                // kInteger too
  std::string text;               // kString: its value; numbers: as written
  std::vector<std::string> keys;  // kObject: names of `items`
  std::vector<JsonValue> items;   // kArray, kObject

  // The member of an object, or null.
  const JsonValue* find(std::string_view key) const;
  // Short form for messages: numbers as written, strings quoted and cut, "[3 items]".
  std::string describe() const;
};

// Fails with kInput naming `where` for what is not JSON, for a key that stands twice in one object,
// and for more than `max_values` values.
JsonValue parse_json(std::string_view text, const std::string& where, size_t max_values = 200'000);

}  // namespace colibri
