// How Python prints values, and JSON.
#pragma once

#include <optional>
#include <string>

#include "model/template_value.h"

namespace colibri::jinja {

// str(value). Fails with kInput for what prints as an address in Python: macros, generators.
std::string to_text(const Value& value);
// repr(value).
std::string repr(const Value& value);

struct JsonFormat {
  std::optional<std::string> indent;  // of one level; nothing: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};

// json.dumps(value, ...). Fails with kInput for what is not JSON.
std::string to_json(const Value& value, const JsonFormat& format);

}  // namespace colibri::jinja
