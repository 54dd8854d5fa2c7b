// Filters on strings.
#include <algorithm>

#include "base/error.h"
#include "model/template_builtins.h"
#include "model/template_interpreter.h"
#include "model/template_print.h"
#include "model/template_text.h"

namespace colibri::jinja {
namespace {

using Call = const Arguments&;

Value trim(Interpreter& run, Call call) {
  const std::string text = to_text(call.self);
  return run.text(std::string(strip(text, call.text_if(0), Side::kBoth)));
}

Value replace_filter(Interpreter& run, Call call) {
  const std::string old = to_text(call.at(0));
  const std::string by = to_text(call.at(1));
  return replaced(run, to_text(call.self), {old, by, call.integer(2, -1)});
}

Value join(Interpreter& run, Call call) {
  const std::string separator = call.has(0) ? to_text(call.at(0)) : "";
  std::vector<Value> items = run.items_of(call.self);
  if (call.has(1) && !call.at(1).is_none()) {
    for (Value& item : items) item = by_path(run, item, call.at(1));
  }
  return joined_texts(run, items, separator, false);
}

Value indent(Interpreter& run, Call call) {
  std::string margin;
  if (call.has(0) && call.at(0).text()) {
    margin = *call.at(0).text();
  } else {
    margin.assign(static_cast<size_t>(std::clamp<int64_t>(call.integer(0, 4), 0, 4096)), ' ');
  }
  const bool with_blank = call.truth(2, false);
  if (!call.self.text()) {
    refuse_undefined(call.self);
    fail(ErrorKind::kInput, "indent wants a string, got a ", type_name(call.self));
  }
  const std::string text = *call.self.text() + "\n";
  const std::vector<std::string_view> lines = split_lines(text);
  run.charge_made(lines.size() * (margin.size() + 1) + text.size());
  std::string result = call.truth(1, false) ? margin : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result += '\n';
    if (i > 0 && (with_blank || !lines[i].empty())) result += margin;
    result += lines[i];
  }
  return run.text(std::move(result));
}

template <std::string (*Change)(std::string_view)>
Value changed(Interpreter& run, Call call) {
  return run.text(Change(to_text(call.self)));
}

}  // namespace

Value replaced(Interpreter& run, std::string_view text, const Replacement& replacement) {
  const int64_t found = count(text, replacement.old);
  const auto times =
      static_cast<size_t>(replacement.limit < 0 ? found : std::min(found, replacement.limit));
  if (!replacement.by.empty() && times > kMaxValueBytes / replacement.by.size()) {
    fail(ErrorKind::kInput, "a replaced string of more than ", kMaxValueBytes, " bytes");
  }
  return run.text(replace(text, replacement.old, replacement.by, replacement.limit));
}

Value joined_texts(Interpreter& run, const std::vector<Value>& items, std::string_view separator,
                   bool strictly) {
  std::string result;
  for (size_t i = 0; i < items.size(); ++i) {
    if (strictly && !items[i].text()) {
      refuse_undefined(items[i]);
      fail(ErrorKind::kInput, "join wants strings, got a ", type_name(items[i]));
    }
    run.charge_read(items[i]);
    const std::string part = to_text(items[i]);
    run.charge_made(part.size() + separator.size());
    if (i > 0) result += separator;
    result += part;
  }
  return run.text(std::move(result));
}

const std::vector<Builtin>& text_filters() {
  static const std::vector<Builtin> table = {
      {"trim", {"chars"}, 0, false, trim},
      {"upper", {}, 0, false, changed<upper>},
      {"lower", {}, 0, false, changed<lower>},
      {"title", {}, 0, false, changed<title_words>},
      {"capitalize", {}, 0, false, changed<capitalize>},
      {"replace", {"old", "new", "count"}, 2, false, replace_filter},
      {"join", {"d", "attribute"}, 0, false, join},
      {"indent", {"width", "first", "blank"}, 0, false, indent}};
  return table;
}

}  // namespace colibri::jinja
