#include "model/template_builtins.h"

#include <algorithm>

#include "base/error.h"
#include "model/printable.h"

namespace colibri::jinja {
namespace {

const Builtin* find_in(const std::vector<Builtin>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const Builtin& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

void append_names(std::string& out, const std::vector<Builtin>& table) {
  for (const Builtin& entry : table) {
    if (!out.empty()) out += ", ";
    out += entry.name;
  }
}

size_t parameter(const Builtin& builtin, const std::string& keyword) {
  const auto found = std::find(builtin.parameters.begin(), builtin.parameters.end(), keyword);
  if (found == builtin.parameters.end()) {
    std::string known;
    for (const std::string_view name : builtin.parameters) {
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    fail(ErrorKind::kInput, "'", builtin.name, "' has no argument '", printable(keyword, 40),
         "'; it has ", known.empty() ? "none" : known);
  }
  return static_cast<size_t>(found - builtin.parameters.begin());
}

}  // namespace

int64_t Arguments::integer(size_t i, int64_t fallback) const {
  if (!has(i) || at(i).is_none()) return fallback;
  if (!at(i).is_integral()) {
    fail(ErrorKind::kInput, "got a ", type_name(at(i)), " as argument, want an integer");
  }
  return at(i).integer();
}

bool Arguments::truth(size_t i, bool fallback) const { return has(i) ? is_true(at(i)) : fallback; }

const std::string& Arguments::text(size_t i) const {
  if (!has(i) || !at(i).text()) {
    fail(ErrorKind::kInput, "got ", has(i) ? "a " + type_name(at(i)) : "nothing",
         " as argument, want a string");
  }
  return *at(i).text();
}

std::optional<std::string_view> Arguments::text_if(size_t i) const {
  if (!has(i) || at(i).is_none()) return {};
  return text(i);
}

const Builtin* find_filter(std::string_view name) {
  for (const auto* table : {&text_filters(), &list_filters(), &value_filters()}) {
    if (const Builtin* found = find_in(*table, name)) return found;
  }
  return nullptr;
}

const Builtin* find_test(std::string_view name) { return find_in(tests(), name); }
const Builtin* find_method(std::string_view name) { return find_in(methods(), name); }

const Builtin& builtin_of(Function function) {
  // In the order of the enumeration.
  return functions()[static_cast<size_t>(function)];
}

std::string filter_names() {
  std::string out;
  for (const auto* table : {&text_filters(), &list_filters(), &value_filters()}) {
    append_names(out, *table);
  }
  return out;
}

std::string test_names() {
  std::string out;
  append_names(out, tests());
  return out;
}

std::string method_names() {
  std::string out;
  append_names(out, methods());
  return out;
}

void check_arguments(const Builtin& builtin, size_t num_values,
                     const std::vector<std::string>& keywords) {
  const size_t num_positional = num_values - keywords.size();
  if (num_positional > builtin.parameters.size() && !builtin.takes_rest) {
    fail(ErrorKind::kInput, "'", builtin.name, "' takes at most ", builtin.parameters.size(),
         " arguments, got ", num_positional);
  }
  std::vector<bool> is_given(builtin.parameters.size(), false);
  // What takes any number takes its named ones by name only.
  if (!builtin.takes_rest) std::fill_n(is_given.begin(), num_positional, true);
  for (const std::string& keyword : keywords) {
    const size_t at = parameter(builtin, keyword);
    if (is_given[at]) fail(ErrorKind::kInput, "'", builtin.name, "' got twice '", keyword, "'");
    is_given[at] = true;
  }
  for (size_t i = 0; i < builtin.num_required; ++i) {
    if (!is_given[i]) {
      fail(ErrorKind::kInput, "'", builtin.name, "' wants the argument '", builtin.parameters[i],
           "'");
    }
  }
}

Arguments bind(const Builtin& builtin, Value self, std::vector<Value> values,
               const std::vector<std::string>& keywords) {
  check_arguments(builtin, values.size(), keywords);
  Arguments result;
  result.self = std::move(self);
  result.args.resize(builtin.parameters.size());
  const size_t num_positional = values.size() - keywords.size();
  for (size_t i = 0; i < values.size(); ++i) {
    if (i >= num_positional) {
      result.args[parameter(builtin, keywords[i - num_positional])] = std::move(values[i]);
    } else if (builtin.takes_rest) {
      result.rest.push_back(std::move(values[i]));
    } else {
      result.args[i] = std::move(values[i]);
    }
  }
  return result;
}

}  // namespace colibri::jinja
