// Filters, tests, methods and functions by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/template_value.h"

namespace colibri::jinja {

class Interpreter;

struct Arguments {
  Value self;                              // what is filtered, tested, or has the method
  std::vector<std::optional<Value>> args;  // one for each of the builtin's parameters
  std::vector<Value> rest;                 // positional ones after them, if it takes any number

  bool has(size_t i) const { return args[i].has_value(); }
  const Value& at(size_t i) const { return *args[i]; }
  // The argument's value; the fallback where it was not given or is none.
  int64_t integer(size_t i, int64_t fallback) const;
  bool truth(size_t i, bool fallback) const;
  const std::string& text(size_t i) const;
  std::optional<std::string_view> text_if(size_t i) const;
};

struct Builtin {
  std::string_view name;
  std::vector<std::string_view> parameters;
  size_t num_required = 0;
  bool takes_rest = false;
  Value (*call)(Interpreter& run, const Arguments& arguments) = nullptr;
};

// Null if there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_method(std::string_view name);
const Builtin& builtin_of(Function function);

// Their names with ", " between, for messages.
std::string filter_names();
std::string test_names();
std::string method_names();

// Fails with kInput for too few or too many arguments and for keywords it does not know.
Arguments bind(const Builtin& builtin, Value self, std::vector<Value> values,
               const std::vector<std::string>& keywords);
// The same check before any value is known.
void check_arguments(const Builtin& builtin, size_t num_values,
                     const std::vector<std::string>& keywords);

// True if `value` has a method of that name that a template may call (dict.items, str.strip).
bool has_method(const Value& value, std::string_view name);

struct Replacement {
  std::string_view old;
  std::string_view by;
  int64_t limit = -1;  // below 0: no limit
};
// str.replace and str.join, held to the limits before anything is made. With `strictly` only
// strings are joined; else their texts.
Value replaced(Interpreter& run, std::string_view text, const Replacement& replacement);
Value joined_texts(Interpreter& run, const std::vector<Value>& items, std::string_view separator,
                   bool strictly);

// What "a.b.0" names in `value`, item before attribute; `fallback`, unless it is none, stands for
// what is undefined at each step.
Value by_path(Interpreter& run, const Value& value, const Value& path,
              const Value& fallback = Value());

// The tables, one in each file.
const std::vector<Builtin>& text_filters();
const std::vector<Builtin>& list_filters();
const std::vector<Builtin>& value_filters();
const std::vector<Builtin>& tests();
const std::vector<Builtin>& methods();
const std::vector<Builtin>& functions();

}  // namespace colibri::jinja
