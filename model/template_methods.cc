// Methods of strings, mappings and `loop`; the functions a template starts with.
#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "model/printable.h"
#include "model/template_builtins.h"
#include "model/template_interpreter.h"
#include "model/template_print.h"
#include "model/template_text.h"

namespace colibri::jinja {
namespace {

using Call = const Arguments&;

const std::string& self_text(Call call) { return *call.self.text(); }

Value stripped(Interpreter& run, Call call, Side side) {
  return run.text(std::string(strip(self_text(call), call.text_if(0), side)));
}

Value split_by(Interpreter& run, Call call, bool from_right) {
  const int64_t limit = call.integer(1, -1);
  const std::optional<std::string_view> separator = call.text_if(0);
  if (!separator) {
    if (from_right && limit >= 0) {
      fail(ErrorKind::kUnsupported, "rsplit with a limit wants a separator here");
    }
    return run.texts(split_words(self_text(call), limit));
  }
  if (separator->empty()) fail(ErrorKind::kInput, "a separator is not empty");
  return run.texts(from_right ? rsplit(self_text(call), *separator, limit)
                              : split(self_text(call), *separator, limit));
}

// str.startswith and .endswith: one text or a tuple of them.
bool any_affix(Call call, bool (*fits)(std::string_view, std::string_view)) {
  const Sequence* several = call.at(0).sequence();
  if (!several || several->kind != SequenceKind::kTuple) {
    return fits(self_text(call), call.text(0));
  }
  return std::any_of(several->items.begin(), several->items.end(), [&](const Value& item) {
    if (!item.text()) fail(ErrorKind::kInput, "got a ", type_name(item), ", want a string");
    return fits(self_text(call), *item.text());
  });
}

bool starts(std::string_view text, std::string_view part) {
  return text.substr(0, part.size()) == part;
}

bool ends(std::string_view text, std::string_view part) {
  return text.size() >= part.size() && text.substr(text.size() - part.size()) == part;
}

// In characters; -1 if it is not there.
Value found_at(Call call, size_t at) {
  if (at == std::string::npos) return Value(int64_t{-1});
  return Value(num_characters(std::string_view(self_text(call)).substr(0, at)));
}

Value count_of(Interpreter&, Call call) {
  if (const std::string* text = call.self.text()) return Value(count(*text, call.text(0)));
  const std::vector<Value>& items = call.self.sequence()->items;
  return Value(int64_t{std::count_if(
      items.begin(), items.end(), [&call](const Value& item) { return equal(item, call.at(0)); })});
}

Value view(Interpreter& run, Call call, const char* kind) {
  const std::string name = kind;
  const auto& entries = call.self.dict()->items();
  run.charge_made(entries.size() * 3 * sizeof(Value));
  std::vector<Value> items;
  for (const auto& [key, value] : entries) {
    items.push_back(name == "dict_keys"     ? key
                    : name == "dict_values" ? value
                                            : make_sequence(SequenceKind::kTuple, {key, value}));
  }
  return make_sequence(SequenceKind::kView, std::move(items), name);
}

Value get(Interpreter&, Call call) {
  const Value* found = call.at(0).is_undefined() ? nullptr : call.self.dict()->find(call.at(0));
  if (found) return *found;
  return call.has(1) ? call.at(1) : Value();
}

Value cycle(Interpreter&, Call call) {
  const LoopState& loop = *call.self.as<std::shared_ptr<LoopState>>();
  if (call.rest.empty()) fail(ErrorKind::kInput, "loop.cycle wants one value or more");
  if (!loop.items) fail(ErrorKind::kInput, "'loop' is used after its loop ended");
  return call.rest[loop.at % call.rest.size()];
}

Value range(Interpreter& run, Call call) {
  if (!call.has(0)) fail(ErrorKind::kInput, "range wants one argument or more");
  const bool is_one = !call.has(1);
  const int64_t begin = is_one ? 0 : call.integer(0, 0);
  const int64_t end = is_one ? call.integer(0, 0) : call.integer(1, 0);
  const int64_t step = call.integer(2, 1);
  if (step == 0) fail(ErrorKind::kInput, "range's step is not 0");
  const bool is_empty = step > 0 ? begin >= end : begin <= end;
  const __int128 span = static_cast<__int128>(end) - begin;
  const __int128 size = is_empty ? 0 : (span + step - (step > 0 ? 1 : -1)) / step;
  if (size > kMaxRange) {
    fail(ErrorKind::kInput, "a range of more than ", kMaxRange, " numbers");
  }
  run.charge_made(static_cast<size_t>(size) * sizeof(Value));
  std::vector<Value> items;
  for (int64_t i = 0; i < static_cast<int64_t>(size); ++i) items.emplace_back(begin + i * step);
  std::string printed = "range(" + std::to_string(begin) + ", " + std::to_string(end);
  if (step != 1) printed += ", " + std::to_string(step);
  return make_sequence(SequenceKind::kRange, std::move(items), printed + ")");
}

Value raise_exception(Interpreter&, Call call) {
  fail(ErrorKind::kInput, "the template refuses: ", printable(to_text(call.at(0)), 400));
}

Value strftime_now(Interpreter& run, Call call) {
  const std::string& format = call.text(0);
  if (format.empty()) return run.text("");
  if (format.size() > 200) fail(ErrorKind::kInput, "strftime_now: a format of over 200 bytes");
  if (format.find("%f") != std::string::npos) {
    fail(ErrorKind::kUnsupported, "strftime_now: '%f' is not supported");
  }
  std::string result(4096, '\0');
  result.resize(std::strftime(result.data(), result.size(), format.c_str(), &run.now()));
  return run.text(std::move(result));
}

}  // namespace

bool has_method(const Value& value, std::string_view name) {
  if (value.dict()) return name == "items" || name == "keys" || name == "values" || name == "get";
  if (value.is<std::shared_ptr<LoopState>>()) return name == "cycle";
  if (const Sequence* sequence = value.sequence()) {
    return sequence->kind <= SequenceKind::kRange && name == "count";
  }
  return value.text() && name != "items" && name != "keys" && name != "values" && name != "get" &&
         name != "cycle" && find_method(name);
}

const std::vector<Builtin>& methods() {
  static const std::vector<Builtin> table = {
      {"strip",
       {"chars"},
       0,
       false,
       [](Interpreter& run, Call call) { return stripped(run, call, Side::kBoth); }},
      {"lstrip",
       {"chars"},
       0,
       false,
       [](Interpreter& run, Call call) { return stripped(run, call, Side::kLeft); }},
      {"rstrip",
       {"chars"},
       0,
       false,
       [](Interpreter& run, Call call) { return stripped(run, call, Side::kRight); }},
      {"split",
       {"sep", "maxsplit"},
       0,
       false,
       [](Interpreter& run, Call call) { return split_by(run, call, false); }},
      {"rsplit",
       {"sep", "maxsplit"},
       0,
       false,
       [](Interpreter& run, Call call) { return split_by(run, call, true); }},
      {"splitlines",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return run.texts(split_lines(self_text(call))); }},
      {"startswith",
       {"prefix"},
       1,
       false,
       [](Interpreter&, Call call) { return Value(any_affix(call, starts)); }},
      {"endswith",
       {"suffix"},
       1,
       false,
       [](Interpreter&, Call call) { return Value(any_affix(call, ends)); }},
      {"replace",
       {"old", "new", "count"},
       2,
       false,
       [](Interpreter& run, Call call) {
         return replaced(run, self_text(call), {call.text(0), call.text(1), call.integer(2, -1)});
       }},
      {"find",
       {"sub"},
       1,
       false,
       [](Interpreter&, Call call) { return found_at(call, self_text(call).find(call.text(0))); }},
      {"rfind",
       {"sub"},
       1,
       false,
       [](Interpreter&, Call call) { return found_at(call, self_text(call).rfind(call.text(0))); }},
      {"count", {"sub"}, 1, false, count_of},
      {"join",
       {"iterable"},
       1,
       false,
       [](Interpreter& run, Call call) {
         return joined_texts(run, run.items_of(call.at(0)), self_text(call), true);
       }},
      {"upper",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return run.text(upper(self_text(call))); }},
      {"lower",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return run.text(lower(self_text(call))); }},
      {"title",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return run.text(title(self_text(call))); }},
      {"capitalize",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return run.text(capitalize(self_text(call))); }},
      {"items",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return view(run, call, "dict_items"); }},
      {"keys",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return view(run, call, "dict_keys"); }},
      {"values",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return view(run, call, "dict_values"); }},
      {"get", {"key", "default"}, 1, false, get},
      {"cycle", {}, 0, true, cycle}};
  return table;
}

const std::vector<Builtin>& functions() {
  static const std::vector<Builtin> table = {
      {"range", {"start", "stop", "step"}, 1, false, range},
      {"namespace", {}, 0, false, nullptr},  // these two take any keyword: Interpreter::call_value
      {"dict", {}, 0, false, nullptr},
      {"raise_exception", {"message"}, 1, false, raise_exception},
      {"strftime_now", {"format"}, 1, false, strftime_now}};
  return table;
}

}  // namespace colibri::jinja
