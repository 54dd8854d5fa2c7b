// Filters that turn one value into another, and tests.
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/template_builtins.h"
#include "model/template_interpreter.h"
#include "model/template_print.h"
#include "model/template_text.h"

namespace colibri::jinja {
namespace {

using Call = const Arguments&;

Value default_value(Interpreter& run, Call call) {
  const bool is_replaced =
      call.self.is_undefined() || (call.truth(1, false) && !is_true(call.self));
  if (!is_replaced) return call.self;
  return call.has(0) ? call.at(0) : run.text("");
}

std::optional<double> real_of(std::string_view text) {
  text = strip(text, {}, Side::kBoth);
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double result = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), result);
  if (text.empty() || read.ptr != text.data() + text.size()) return {};
  if (read.ec == std::errc::result_out_of_range) {
    fail(ErrorKind::kInput, "a number out of range: '", text, "'");
  }
  return read.ec == std::errc() ? std::optional(result) : std::nullopt;
}

std::optional<int64_t> integer_of(double real) {
  if (!std::isfinite(real)) return {};
  if (std::abs(real) >= 0x1p63) fail(ErrorKind::kInput, "an integer of more than 64 bits");
  return static_cast<int64_t>(real);
}

std::optional<int64_t> integer_of(const Value& value) {
  refuse_undefined(value);
  if (value.is_integral()) return value.integer();
  if (value.is<double>()) return integer_of(value.as<double>());
  if (!value.text()) return {};
  std::string_view text = strip(*value.text(), {}, Side::kBoth);
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  int64_t result = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), result);
  if (!text.empty() && read.ptr == text.data() + text.size()) {
    if (read.ec == std::errc()) return result;
    fail(ErrorKind::kInput, "an integer of more than 64 bits: '", text, "'");
  }
  const std::optional<double> real = real_of(*value.text());
  return real ? integer_of(*real) : std::nullopt;
}

Value to_integer(Interpreter&, Call call) {
  if (call.integer(1, 10) != 10) fail(ErrorKind::kUnsupported, "int: the base is 10 here");
  const std::optional<int64_t> result = integer_of(call.self);
  if (result) return Value(*result);
  return call.has(0) ? call.at(0) : Value(int64_t{0});
}

Value to_real(Interpreter&, Call call) {
  refuse_undefined(call.self);
  if (call.self.is_number()) return Value(call.self.real());
  const std::optional<double> real = call.self.text() ? real_of(*call.self.text()) : std::nullopt;
  if (real) return Value(*real);
  return call.has(0) ? call.at(0) : Value(0.0);
}

Value absolute(Interpreter&, Call call) {
  refuse_undefined(call.self);
  if (call.self.is<double>()) return Value(std::abs(call.self.as<double>()));
  if (!call.self.is_integral()) {
    fail(ErrorKind::kInput, "abs wants a number, got a ", type_name(call.self));
  }
  return call.self.integer() < 0 ? unary("-", call.self) : Value(call.self.integer());
}

Value to_json_text(Interpreter& run, Call call) {
  JsonFormat format;
  format.ensure_ascii = call.truth(0, false);
  if (call.has(1) && !call.at(1).is_none()) {
    if (call.at(1).text()) {
      format.indent = call.text(1);
    } else {
      format.indent =
          std::string(static_cast<size_t>(std::max<int64_t>(call.integer(1, 0), 0)), ' ');
    }
    if (format.indent->size() > 16) fail(ErrorKind::kInput, "tojson: an indent of over 16 bytes");
    format.item_separator = ",";
  }
  if (call.has(2) && !call.at(2).is_none()) {
    const std::vector<Value> separators = run.items_of(call.at(2));
    if (separators.size() != 2 || !separators[0].text() || !separators[1].text() ||
        separators[0].text()->size() + separators[1].text()->size() > 16) {
      fail(ErrorKind::kInput, "tojson: separators are two short strings");
    }
    format.item_separator = *separators[0].text();
    format.key_separator = *separators[1].text();
  }
  format.sort_keys = call.truth(3, false);
  refuse_undefined(call.self);
  return run.text(to_json(call.self, format));
}

}  // namespace

const std::vector<Builtin>& value_filters() {
  static const std::vector<Builtin> table = {
      {"default", {"default_value", "boolean"}, 0, false, default_value},
      {"d", {"default_value", "boolean"}, 0, false, default_value},
      {"string",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return run.text(to_text(call.self)); }},
      {"safe",
       {},
       0,
       false,
       [](Interpreter& run, Call call) { return run.text(to_text(call.self)); }},
      {"int", {"default", "base"}, 0, false, to_integer},
      {"float", {"default"}, 0, false, to_real},
      {"abs", {}, 0, false, absolute},
      {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, false, to_json_text}};
  return table;
}

}  // namespace colibri::jinja
