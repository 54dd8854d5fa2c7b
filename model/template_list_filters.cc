// Filters on lists and mappings.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/printable.h"
#include "model/template_builtins.h"
#include "model/template_interpreter.h"
#include "model/template_text.h"

namespace colibri::jinja {
namespace {

using Call = const Arguments&;

Value generator(std::vector<Value> items) {
  return make_sequence(SequenceKind::kGenerator, std::move(items));
}

// What strings are compared by: in lower case, unless case counts.
Value comparable(Interpreter& run, const Value& value, bool with_case) {
  if (with_case || !value.text()) return value;
  return run.text(lower(*value.text()));
}

using Keyed = std::pair<Value, Value>;  // key, item

using Before = bool (*)(const Value&, const Value&);

bool before(const Value& a, const Value& b) { return less(a, b); }
// sort compares lists of one key: what is equal needs no order.
bool differs_before(const Value& a, const Value& b) { return !equal(a, b) && less(a, b); }

Value sorted(Interpreter& run, std::vector<Keyed> items, bool is_reversed, Before is_before) {
  for (const Keyed& item : items) {
    for (int i = 0; i < 20; ++i) run.charge_read(item.first);
  }
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return is_reversed ? is_before(b.first, a.first) : is_before(a.first, b.first);
  });
  std::vector<Value> result;
  for (Keyed& item : items) result.push_back(std::move(item.second));
  return make_list(std::move(result));
}

Value sort(Interpreter& run, Call call) {
  std::vector<Keyed> items;
  for (const Value& item : run.items_of(call.self)) {
    const bool has_path = call.has(2) && !call.at(2).is_none();
    if (has_path && call.at(2).text() && call.at(2).text()->find(',') != std::string::npos) {
      fail(ErrorKind::kUnsupported, "sort by several attributes is not supported");
    }
    const Value key = has_path ? by_path(run, item, call.at(2)) : item;
    items.emplace_back(comparable(run, key, call.truth(1, false)), item);
  }
  return sorted(run, std::move(items), call.truth(0, false), differs_before);
}

Value dictsort(Interpreter& run, Call call) {
  if (!call.self.dict()) {
    refuse_undefined(call.self);
    fail(ErrorKind::kInput, "dictsort wants a mapping, got a ", type_name(call.self));
  }
  const std::string by = call.has(1) ? call.text(1) : "key";
  if (by != "key" && by != "value") {
    fail(ErrorKind::kInput, "dictsort: by is 'key' or 'value', got '", printable(by, 40), "'");
  }
  std::vector<Keyed> items;
  for (const auto& [key, value] : call.self.dict()->items()) {
    items.emplace_back(comparable(run, by == "key" ? key : value, call.truth(0, false)),
                       make_sequence(SequenceKind::kTuple, {key, value}));
  }
  return sorted(run, std::move(items), call.truth(2, false), before);
}

Value unique(Interpreter& run, Call call) {
  Dict seen;
  std::vector<Value> result;
  for (const Value& item : run.items_of(call.self)) {
    const bool has_path = call.has(1) && !call.at(1).is_none();
    const Value key =
        comparable(run, has_path ? by_path(run, item, call.at(1)) : item, call.truth(0, false));
    if (seen.find(key)) continue;
    seen.set(key, Value());
    result.push_back(item);
  }
  return generator(std::move(result));
}

Value reverse(Interpreter& run, Call call) {
  if (const std::string* text = call.self.text()) {
    std::string result;
    const std::vector<std::string_view> parts = characters(*text);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) result += *part;
    return run.text(std::move(result));
  }
  std::vector<Value> items = run.items_of(call.self);
  std::reverse(items.begin(), items.end());
  // Python makes a list only of what it cannot go through backwards.
  const Sequence* sequence = call.self.sequence();
  const bool is_generator = sequence && sequence->kind == SequenceKind::kGenerator;
  return is_generator ? make_list(std::move(items)) : generator(std::move(items));
}

Value first(Interpreter& run, Call call) {
  const std::vector<Value> items = run.items_of(call.self);
  return items.empty() ? Value(Undefined{"there is no first item"}) : items.front();
}

Value last(Interpreter& run, Call call) {
  if (const Sequence* sequence = call.self.sequence();
      sequence && sequence->kind == SequenceKind::kGenerator) {
    fail(ErrorKind::kInput, "'generator' object is not reversible; put '| list' before it");
  }
  const std::vector<Value> items = run.items_of(call.self);
  return items.empty() ? Value(Undefined{"there is no last item"}) : items.back();
}

Value length(Interpreter&, Call call) {
  const Value& self = call.self;
  if (self.is_undefined()) return Value(int64_t{0});
  if (const std::string* text = self.text()) return Value(num_characters(*text));
  if (const Dict* dict = self.dict()) return Value(static_cast<int64_t>(dict->items().size()));
  const Sequence* sequence = self.sequence();
  if (!sequence || sequence->kind == SequenceKind::kGenerator) {
    fail(ErrorKind::kInput, "object of type '", type_name(self), "' has no length");
  }
  return Value(static_cast<int64_t>(sequence->items.size()));
}

Value items(Interpreter& run, Call call) {
  if (call.self.is_undefined()) return generator({});
  if (!call.self.dict()) {
    fail(ErrorKind::kInput, "items wants a mapping, got a ", type_name(call.self));
  }
  std::vector<Value> pairs;
  run.charge_made(call.self.dict()->items().size() * 3 * sizeof(Value));
  for (const auto& [key, value] : call.self.dict()->items()) {
    pairs.push_back(make_sequence(SequenceKind::kTuple, {key, value}));
  }
  return generator(std::move(pairs));
}

// The builtin that the first of `rest` names, and its arguments taken off the front.
const Builtin& named(std::vector<Value>& rest, const Builtin* (*find)(std::string_view),
                     std::string_view what) {
  const std::string* name = rest.empty() ? nullptr : rest[0].text();
  if (!name) fail(ErrorKind::kInput, "want the name of a ", what, " as a string");
  const Builtin* builtin = find(*name);
  if (!builtin) {
    fail(ErrorKind::kUnsupported, "the ", what, " '", printable(*name, 40), "' is not supported");
  }
  rest.erase(rest.begin());
  return *builtin;
}

Value map(Interpreter& run, Call call) {
  std::vector<Value> rest = call.rest;
  const bool by_attribute = rest.empty() && call.has(0);
  const Builtin* builtin = by_attribute ? nullptr : &named(rest, find_filter, "filter");
  std::vector<Value> result;
  for (const Value& item : run.items_of(call.self)) {
    if (builtin) {
      result.push_back(run.filter(*builtin, item, rest));
      continue;
    }
    result.push_back(by_path(run, item, call.at(0), call.has(1) ? call.at(1) : Value()));
  }
  return generator(std::move(result));
}

// select, reject and their kin on attributes: keeps items whose test is `wanted`.
Value chosen(Interpreter& run, Call call, bool with_attribute, bool wanted) {
  std::vector<Value> rest = call.rest;
  Value path;
  if (with_attribute) {
    if (rest.empty()) fail(ErrorKind::kInput, "want the name of an attribute");
    path = rest[0];
    rest.erase(rest.begin());
  }
  const Builtin* builtin = rest.empty() ? nullptr : &named(rest, find_test, "test");
  std::vector<Value> result;
  for (const Value& item : run.items_of(call.self)) {
    const Value tested = with_attribute ? by_path(run, item, path) : item;
    const bool fits = builtin ? run.test(*builtin, tested, rest) : is_true(tested);
    if (fits == wanted) result.push_back(item);
  }
  return generator(std::move(result));
}

template <bool WithAttribute, bool Wanted>
Value choose(Interpreter& run, Call call) {
  return chosen(run, call, WithAttribute, Wanted);
}

}  // namespace

Value by_path(Interpreter& run, const Value& value, const Value& path, const Value& fallback) {
  const auto step = [&](const Value& from, const Value& index) {
    Value found = run.item(from, index);
    return found.is_undefined() && !fallback.is_none() ? fallback : found;
  };
  if (!path.text()) return step(value, path);
  Value result = value;
  for (const std::string_view part : split(*path.text(), ".", -1)) {
    const bool is_index = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string_view::npos;
    result = step(
        result, is_index ? Value(int64_t{std::stoi(std::string(part))}) : Value(std::string(part)));
  }
  return result;
}

const std::vector<Builtin>& list_filters() {
  static const std::vector<Builtin> table = {
      {"length", {}, 0, false, length},
      {"count", {}, 0, false, length},
      {"first", {}, 0, false, first},
      {"last", {}, 0, false, last},
      {"list",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return make_list(run.items_of(call.self)); }},
      {"items", {}, 0, false, items},
      {"map", {"attribute", "default"}, 0, true, map},
      {"select", {}, 0, true, choose<false, true>},
      {"reject", {}, 0, true, choose<false, false>},
      {"selectattr", {}, 0, true, choose<true, true>},
      {"rejectattr", {}, 0, true, choose<true, false>},
      {"sort", {"reverse", "case_sensitive", "attribute"}, 0, false, sort},
      {"dictsort", {"case_sensitive", "by", "reverse"}, 0, false, dictsort},
      {"unique", {"case_sensitive", "attribute"}, 0, false, unique},
      {"reverse", {}, 0, false, reverse}};
  return table;
}

}  // namespace colibri::jinja
