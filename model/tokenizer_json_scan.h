// JSON to events for tokenizer.json, which is ten megabytes of short strings: a general JSON
// library took half of the time it takes to load one.
#pragma once

#include <cstdint>
#include <string_view>

namespace colibri::tokenizer_json {

// Receives a document in order; throws to stop. Strings are valid until the call returns.
class ScanEvents {
 public:
  virtual ~ScanEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void integer(int64_t value) = 0;  // no fraction, no exponent, fits
  virtual void real(double value) = 0;      // any other number
  virtual void string(std::string_view value) = 0;
  virtual void key(std::string_view name) = 0;
  virtual void start_object() = 0;
  virtual void end_object() = 0;
  virtual void start_array() = 0;
  virtual void end_array() = 0;
};

// Strict JSON (RFC 8259), UTF-8 checked, escaped surrogates in pairs only. Recursion is as deep as
// the nesting: the receiver must throw from start_object or start_array at its limit. Fails with
// kInput naming `file` and the byte.
void scan_json(std::string_view text, std::string_view file, ScanEvents& events);

}  // namespace colibri::tokenizer_json
