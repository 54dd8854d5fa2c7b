// What stands after `is`.
#include "base/error.h"
#include "model/template_builtins.h"
#include "model/template_interpreter.h"
#include "model/template_print.h"
#include "model/template_text.h"

namespace colibri::jinja {
namespace {

using Call = const Arguments&;

template <bool (*Test)(const Value&)>
Value on_self(Interpreter&, Call call) {
  return Value(Test(call.self));
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_number(const Value& value) { return value.is_number(); }
bool is_integer(const Value& value) { return value.is<int64_t>(); }
bool is_float(const Value& value) { return value.is<double>(); }
bool is_boolean(const Value& value) { return value.is<bool>(); }
bool is_exactly_true(const Value& value) { return value.is<bool>() && value.as<bool>(); }
bool is_exactly_false(const Value& value) { return value.is<bool>() && !value.as<bool>(); }
bool is_upper(const Value& value) {
  const std::string text = to_text(value);
  return upper(text) == text && lower(text) != text;
}
bool is_lower(const Value& value) {
  const std::string text = to_text(value);
  return lower(text) == text && upper(text) != text;
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.text() || value.dict() || value.sequence() ||
         value.is<std::shared_ptr<LoopState>>();
}

// What has a length and items by index; Jinja's undefined has both.
bool is_sequence(const Value& value) {
  return value.is_undefined() || value.text() || value.dict() ||
         (value.sequence() && value.sequence()->kind <= SequenceKind::kRange);
}

bool is_callable(const Value& value) {
  // Jinja's undefined can be called, to say that it is undefined.
  return value.is_undefined() || value.is<Function>() || value.is<std::shared_ptr<const Macro>>() ||
         value.is<std::shared_ptr<const Method>>();
}

int64_t remainder(Interpreter& run, const Value& value, int64_t by) {
  const Value result = binary(run, "%", value, Value(by));
  return result.is_integral() ? result.integer() : result.as<double>() != 0;
}

template <int64_t Wanted>
Value has_parity(Interpreter& run, Call call) {
  return Value(remainder(run, call.self, 2) == Wanted);
}

Value divisible(Interpreter& run, Call call) {
  return Value(equal(binary(run, "%", call.self, call.at(0)), Value(int64_t{0})));
}

template <char First, char Second = '\0'>
Value compared(Interpreter& run, Call call) {
  std::string op(1, First);
  if (Second != '\0') op += Second;
  return Value(compare(run, op, call.self, call.at(0)));
}

Value is_in(Interpreter& run, Call call) { return Value(run.contains(call.at(0), call.self)); }

Value is_same(Interpreter&, Call call) {
  const Value& other = call.at(0);
  const bool is_constant = call.self.is_none() || call.self.is<bool>();
  if (!is_constant && !other.is_none() && !other.is<bool>()) {
    fail(ErrorKind::kUnsupported, "sameas compares with none, true and false only");
  }
  return Value(call.self.held.index() == other.held.index() && equal(call.self, other));
}

}  // namespace

const std::vector<Builtin>& tests() {
  static const std::vector<Builtin> table = {{"defined", {}, 0, false, on_self<is_defined>},
                                             {"undefined", {}, 0, false, on_self<is_undefined>},
                                             {"none", {}, 0, false, on_self<is_none>},
                                             {"string", {}, 0, false, on_self<is_string>},
                                             {"mapping", {}, 0, false, on_self<is_mapping>},
                                             {"iterable", {}, 0, false, on_self<is_iterable>},
                                             {"sequence", {}, 0, false, on_self<is_sequence>},
                                             {"number", {}, 0, false, on_self<is_number>},
                                             {"integer", {}, 0, false, on_self<is_integer>},
                                             {"float", {}, 0, false, on_self<is_float>},
                                             {"boolean", {}, 0, false, on_self<is_boolean>},
                                             {"true", {}, 0, false, on_self<is_exactly_true>},
                                             {"false", {}, 0, false, on_self<is_exactly_false>},
                                             {"upper", {}, 0, false, on_self<is_upper>},
                                             {"lower", {}, 0, false, on_self<is_lower>},
                                             {"callable", {}, 0, false, on_self<is_callable>},
                                             {"odd", {}, 0, false, has_parity<1>},
                                             {"even", {}, 0, false, has_parity<0>},
                                             {"divisibleby", {"num"}, 1, false, divisible},
                                             {"in", {"seq"}, 1, false, is_in},
                                             {"sameas", {"other"}, 1, false, is_same},
                                             {"eq", {"b"}, 1, false, compared<'=', '='>},
                                             {"equalto", {"b"}, 1, false, compared<'=', '='>},
                                             {"==", {"b"}, 1, false, compared<'=', '='>},
                                             {"ne", {"b"}, 1, false, compared<'!', '='>},
                                             {"!=", {"b"}, 1, false, compared<'!', '='>},
                                             {"lt", {"b"}, 1, false, compared<'<'>},
                                             {"lessthan", {"b"}, 1, false, compared<'<'>},
                                             {"<", {"b"}, 1, false, compared<'<'>},
                                             {"le", {"b"}, 1, false, compared<'<', '='>},
                                             {"<=", {"b"}, 1, false, compared<'<', '='>},
                                             {"gt", {"b"}, 1, false, compared<'>'>},
                                             {"greaterthan", {"b"}, 1, false, compared<'>'>},
                                             {">", {"b"}, 1, false, compared<'>'>},
                                             {"ge", {"b"}, 1, false, compared<'>', '='>},
                                             {">=", {"b"}, 1, false, compared<'>', '='>}};
  return table;
}

}  // namespace colibri::jinja
