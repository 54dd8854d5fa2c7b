// Checked access to the members of one JSON object. Every key that is asked for is remembered, so
// that what nobody asked for can be refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/json_value.h"

namespace colibri {

struct IntRange {
  int64_t min, max;  // both allowed
};
struct RealRange {
  double above, max;  // above < value <= max
};

// All getters fail with kInput saying file, key, what came and what was wanted. A key that is
// absent gives the default; an explicit null counts as absent only in the optional_ forms.
class JsonFields {
 public:
  // Keeps a reference to `object`, which must be an object, and a copy of `where`.
  JsonFields(const JsonValue& object, std::string where);

  // The value, marked as read; null pointer if the key is absent.
  const JsonValue* find(std::string_view key);
  // Present and not null. Does not mark.
  bool has(std::string_view key) const;

  int64_t int_or(std::string_view key, int64_t fallback, IntRange range);
  std::optional<int64_t> optional_int(std::string_view key, IntRange range);
  double real_or(std::string_view key, double fallback, RealRange range);
  std::optional<double> optional_real(std::string_view key, RealRange range);
  bool bool_or(std::string_view key, bool fallback);
  std::string string_or(std::string_view key, const std::string& fallback);
  // Null, an integer or a list of at most 1000; empty when absent.
  std::vector<int64_t> ints(std::string_view key, IntRange range);
  // Null or a list; empty when absent.
  std::vector<std::string> strings(std::string_view key);

  // Marks keys that are known to have no effect here, whatever they hold.
  void without_effect(std::initializer_list<std::string_view> keys);
  // Fails with kUnsupported naming the keys that nobody asked for.
  void refuse_unread() const;

  [[noreturn]] void wrong(std::string_view key, std::string_view wanted) const;
  [[noreturn]] void unsupported(std::string_view key, std::string_view why) const;
  const std::string& where() const { return where_; }

 private:
  int64_t checked_int(std::string_view key, const JsonValue& value, IntRange range) const;

  const JsonValue& object_;
  std::string where_;
  std::unordered_set<std::string> read_;
};

}  // namespace colibri
