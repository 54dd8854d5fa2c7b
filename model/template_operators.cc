// Python's arithmetic, comparisons and slices.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/template_interpreter.h"
#include "model/template_text.h"

namespace colibri::jinja {
namespace {

[[noreturn]] void fail_types(const std::string& op, const Value& left, const Value& right) {
  refuse_undefined(left);
  refuse_undefined(right);
  fail(ErrorKind::kInput, "unsupported operand types for ", op, ": '", type_name(left), "' and '",
       type_name(right), "'");
}

Value checked(bool overflows, int64_t result) {
  if (overflows) fail(ErrorKind::kInput, "an integer of more than 64 bits");
  return Value(result);
}

Value integers(const std::string& op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    const bool overflows = __builtin_add_overflow(a, b, &result);
    return checked(overflows, result);
  }
  if (op == "-") {
    const bool overflows = __builtin_sub_overflow(a, b, &result);
    return checked(overflows, result);
  }
  if (op == "*") {
    const bool overflows = __builtin_mul_overflow(a, b, &result);
    return checked(overflows, result);
  }
  if (b == 0) fail(ErrorKind::kInput, "division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {
    if (op == "%") return Value(int64_t{0});
    const bool overflows = __builtin_sub_overflow(int64_t{0}, a, &result);
    return checked(overflows, result);
  }
  const bool is_rounded = a % b != 0 && (a < 0) != (b < 0);
  if (op == "//") return Value(a / b - (is_rounded ? 1 : 0));
  return Value(a % b + (is_rounded ? b : 0));
}

Value reals(const std::string& op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (b == 0) fail(ErrorKind::kInput, "division by zero");
  if (op == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((b < 0) != (rest < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == "%") return Value(rest);
  if (quotient == 0) return Value(std::copysign(0.0, a / b));
  const double floored = std::floor(quotient);
  return Value(quotient - floored > 0.5 ? floored + 1 : floored);
}

bool is_list_or_tuple(const Value& value) {
  return value.sequence() && value.sequence()->kind <= SequenceKind::kTuple;
}

Value repeated(Interpreter& run, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  const size_t bytes =
      value.text() ? std::max<size_t>(value.text()->size(), 1) : extent_of(value).bytes;
  if (times > kMaxValueBytes / bytes) {
    fail(ErrorKind::kInput, "a repeated value of more than ", kMaxValueBytes, " bytes");
  }
  run.charge_made(times * bytes);
  if (const std::string* text = value.text()) {
    std::string result;
    for (size_t i = 0; i < times; ++i) result += *text;
    return Value(std::move(result));
  }
  std::vector<Value> items;
  for (size_t i = 0; i < times; ++i) {
    items.insert(items.end(), value.sequence()->items.begin(), value.sequence()->items.end());
  }
  return make_sequence(value.sequence()->kind, std::move(items));
}

Value joined(Interpreter& run, const Value& left, const Value& right) {
  if (left.text()) return run.text(*left.text() + *right.text());
  std::vector<Value> items = left.sequence()->items;
  items.insert(items.end(), right.sequence()->items.begin(), right.sequence()->items.end());
  run.charge_made(items.size() * sizeof(Value));
  return make_sequence(left.sequence()->kind, std::move(items));
}

// A bound of a slice as Python clamps it.
int64_t clamped(const Value& bound, int64_t fallback, int64_t lowest, int64_t size) {
  if (bound.is_none()) return fallback;
  int64_t at = bound.integer();
  if (at < 0) at = at < -size ? lowest : at + size;
  return std::clamp(at, lowest, lowest < 0 ? size - 1 : size);
}

}  // namespace

Value unary(const std::string& op, const Value& operand) {
  if (op == "not") return Value(!is_true(operand));
  refuse_undefined(operand);
  if (!operand.is_number()) {
    fail(ErrorKind::kInput, "bad operand type for unary ", op, ": '", type_name(operand), "'");
  }
  if (operand.is<double>()) return Value(op == "-" ? -operand.as<double>() : operand.as<double>());
  return op == "-" ? integers("-", 0, operand.integer()) : Value(operand.integer());
}

Value binary(Interpreter& run, const std::string& op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) {
      return integers(op, left.integer(), right.integer());
    }
    return reals(op, left.real(), right.real());
  }
  if (op == "+") {
    const bool are_lists = is_list_or_tuple(left) && is_list_or_tuple(right) &&
                           left.sequence()->kind == right.sequence()->kind;
    if (are_lists || (left.text() && right.text())) return joined(run, left, right);
  }
  if (op == "*") {
    if ((left.text() || is_list_or_tuple(left)) && right.is_integral()) {
      return repeated(run, left, right.integer());
    }
    if (left.is_integral() && (right.text() || is_list_or_tuple(right))) {
      return repeated(run, right, left.integer());
    }
  }
  if (op == "%" && left.text()) {
    fail(ErrorKind::kUnsupported, "formatting with '%' is not supported; join with '~'");
  }
  fail_types(op, left, right);
}

bool compare(Interpreter& run, const std::string& op, const Value& left, const Value& right) {
  run.charge_read(left);
  run.charge_read(right);
  if (op == "==") return equal(left, right);
  if (op == "!=") return !equal(left, right);
  if (op == "in") return run.contains(right, left);
  if (op == "not in") return !run.contains(right, left);
  if (op == "<") return less(left, right, op);
  if (op == ">") return less(right, left, op);
  if (op == "<=") return less(left, right, op) || equal(left, right);
  return less(right, left, op) || equal(left, right);
}

bool Interpreter::contains(const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (const std::string* text = container.text()) {
    if (const std::string* part = item.text()) return text->find(*part) != std::string::npos;
    fail(ErrorKind::kInput, "'in <string>' wants a string on the left, got '", type_name(item),
         "'");
  }
  if (const Dict* dict = container.dict()) return !item.is_undefined() && dict->find(item);
  const std::vector<Value> items = items_of(container);
  return std::any_of(items.begin(), items.end(),
                     [&item](const Value& other) { return equal(other, item); });
}

Value slice_of(Interpreter& run, const Value& object, const Value (&bounds)[3]) {
  refuse_undefined(object);
  const bool is_sequence = object.sequence() && object.sequence()->kind <= SequenceKind::kRange;
  const bool are_integers = std::all_of(std::begin(bounds), std::end(bounds), [](const Value& b) {
    return b.is_none() || b.is_integral();
  });
  if (!object.text() && !is_sequence) {
    fail(ErrorKind::kInput, "a '", type_name(object), "' object has no slices");
  }
  if (!are_integers) fail(ErrorKind::kInput, "the bounds of a slice are integers or none");
  const int64_t step = bounds[2].is_none() ? 1 : bounds[2].integer();
  if (step == 0) fail(ErrorKind::kInput, "a slice's step is not 0");
  run.charge_read(object);
  std::vector<std::string_view> parts;
  if (object.text()) parts = characters(*object.text());
  const auto size =
      static_cast<int64_t>(object.text() ? parts.size() : object.sequence()->items.size());
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t begin = clamped(bounds[0], step < 0 ? size - 1 : 0, lowest, size);
  const int64_t end = clamped(bounds[1], step < 0 ? -1 : size, lowest, size);
  std::string text;
  std::vector<Value> items;
  for (int64_t at = begin; step < 0 ? at > end : at < end;) {
    if (object.text()) {
      text += parts[static_cast<size_t>(at)];
    } else {
      items.push_back(object.sequence()->items[static_cast<size_t>(at)]);
    }
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  if (object.text()) return run.text(std::move(text));
  run.charge_made(items.size() * sizeof(Value));
  return make_sequence(object.sequence()->kind, std::move(items));  // a range's has no text
}

Value loop_attribute(const LoopState& loop, const std::string& name) {
  if (!loop.items) fail(ErrorKind::kInput, "'loop' is used after its loop ended");
  const auto at = static_cast<int64_t>(loop.at);
  const auto size = static_cast<int64_t>(loop.items->size());
  if (name == "index") return Value(at + 1);
  if (name == "index0") return Value(at);
  if (name == "revindex") return Value(size - at);
  if (name == "revindex0") return Value(size - at - 1);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem" && at > 0) return (*loop.items)[loop.at - 1];
  if (name == "nextitem" && at + 1 < size) return (*loop.items)[loop.at + 1];
  if (name == "previtem") return Value(Undefined{"there is no previous item"});
  if (name == "nextitem") return Value(Undefined{"there is no next item"});
  if (name == "changed") fail(ErrorKind::kUnsupported, "loop.changed is not supported");
  return Value(Undefined{"'loop' has no attribute '" + name + "'"});
}

}  // namespace colibri::jinja
