// JSON as a stream of events: what large or hostile files are read through, so that a reader
// refuses what it does not want before memory is spent on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colibri {

enum class JsonKind : uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

// "null", "true or false", "an integer", ... for messages.
const char* to_string(JsonKind kind);

struct JsonScalar {
  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  int64_t integer = 0;  // kInteger: written without sign of fraction or exponent, fits int64
  double real = 0;      // kReal: anything else that is a number
  std::string text;     // kString: the string; numbers: as written
};

// Receives the events; throws to stop.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void scalar(JsonScalar& value) = 0;
  virtual void key(std::string& name) = 0;
  virtual void begin(JsonKind kind) = 0;  // kObject or kArray
  virtual void end() = 0;
};

inline constexpr int kMaxJsonDepth = 32;

// Sends the events of `text` in order. Fails with kInput naming `where` if it is not UTF-8, not one
// JSON value, or nested deeper than kMaxJsonDepth. Duplicate keys are the receiver's to refuse.
void parse_json_events(std::string_view text, const std::string& where, JsonEvents& events);

}  // namespace colibri
