#include "model/template_value.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace colibri::jinja {
namespace {

// Exact comparison of an integer with a double: -1, 0, 1, or 2 for a NaN.
int compare_numbers(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    const int64_t a = left.integer();
    const int64_t b = right.integer();
    return a < b ? -1 : a > b;
  }
  const auto a = left.is<double>() ? static_cast<long double>(left.as<double>())
                                   : static_cast<long double>(left.integer());
  const auto b = right.is<double>() ? static_cast<long double>(right.as<double>())
                                    : static_cast<long double>(right.integer());
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : a > b;
}

// Lists equal lists and tuples tuples; generators and views only themselves.
bool equal_sequences(const Sequence& left, const Sequence& right) {
  if (&left == &right) return true;
  if (left.kind != right.kind) return false;
  if (left.kind == SequenceKind::kGenerator || left.kind == SequenceKind::kView) return false;
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(),
                    equal);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.items().size() != right.items().size()) return false;
  return std::all_of(left.items().begin(), left.items().end(), [&](const auto& item) {
    const Value* other = right.find(item.first);
    return other && equal(item.second, *other);
  });
}

bool is_ordered(const Sequence* sequence) {
  return sequence &&
         (sequence->kind == SequenceKind::kList || sequence->kind == SequenceKind::kTuple);
}

// Equal keys have one text.
std::string key_text(const Value& key) {
  if (const std::string* text = key.text()) return "s" + *text;
  if (key.is_none()) return "n";
  if (key.is_integral()) return "i" + std::to_string(key.integer());
  if (key.is<double>()) {
    const double real = key.as<double>();
    if (std::nearbyint(real) == real && std::abs(real) < 0x1p53) {
      return "i" + std::to_string(static_cast<int64_t>(real));
    }
    return "r" + std::to_string(real);
  }
  fail(ErrorKind::kInput, "a key of a mapping is a string, a number or none, not a ",
       type_name(key));
}

}  // namespace

void Extent::enclose(const Extent& inner) {
  depth = std::max(depth, 1 + inner.depth);
  bytes += inner.bytes;
  if (depth > kMaxValueDepth) {
    fail(ErrorKind::kInput, "values nest deeper than ", kMaxValueDepth, " lists and mappings");
  }
  if (bytes > kMaxValueBytes) {
    fail(ErrorKind::kInput, "a list or mapping holds more than ", kMaxValueBytes, " bytes");
  }
}

Extent extent_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->extent;
  if (const Dict* dict = value.dict()) return dict->extent();
  if (const std::string* text = value.text()) return {0, 16 + text->size()};
  if (value.is<std::shared_ptr<const Method>>()) {
    Extent extent = extent_of(value.as<std::shared_ptr<const Method>>()->self);
    ++extent.depth;
    return extent;
  }
  return {};
}

const size_t* Dict::position(const Value& key) const {
  const auto found = index_.find(key_text(key));
  return found == index_.end() ? nullptr : &found->second;
}

const Value* Dict::find(const Value& key) const {
  const size_t* at = position(key);
  return at ? &items_[*at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index_.find("s" + std::string(key));
  return found == index_.end() ? nullptr : &items_[found->second].second;
}

void Dict::set(const Value& key, Value value) {
  extent_.enclose(extent_of(key));
  extent_.enclose(extent_of(value));
  if (const size_t* at = position(key)) {
    items_[*at].second = std::move(value);
    return;
  }
  index_.emplace(key_text(key), items_.size());
  items_.emplace_back(key, std::move(value));
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, old] : attributes) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes.emplace_back(name, std::move(value));
}

Value make_sequence(SequenceKind kind, std::vector<Value> items, std::string printed) {
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  for (const Value& item : items) sequence->extent.enclose(extent_of(item));
  sequence->items = std::move(items);
  sequence->printed = std::move(printed);
  return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

Value make_list(std::vector<Value> items) {
  return make_sequence(SequenceKind::kList, std::move(items));
}

Value make_dict(Dict dict) { return Value(std::make_shared<const Dict>(std::move(dict))); }

std::string type_name(const Value& value) {
  if (const Sequence* sequence = value.sequence()) {
    switch (sequence->kind) {
      case SequenceKind::kList:
        return "list";
      case SequenceKind::kTuple:
        return "tuple";
      case SequenceKind::kRange:
        return "range";
      case SequenceKind::kView:
        return sequence->printed;
      case SequenceKind::kGenerator:
        return "generator";
    }
  }
  static constexpr const char* kNames[] = {
      "Undefined", "NoneType",  "bool",  "int",    "float",       "str",     "",
      "dict",      "Namespace", "Macro", "method", "LoopContext", "function"};
  return kNames[value.held.index()];
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_integral()) return value.integer() != 0;
  if (value.is<double>()) return value.as<double>() != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const Dict* dict = value.dict()) return !dict->items().empty();
  if (const Sequence* sequence = value.sequence()) {
    return sequence->kind == SequenceKind::kGenerator || !sequence->items.empty();
  }
  return true;
}

bool equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == 0;
  if (left.held.index() != right.held.index()) return false;
  if (left.is_undefined() || left.is_none()) return true;
  if (const std::string* text = left.text()) return *text == *right.text();
  if (const Sequence* sequence = left.sequence()) {
    return equal_sequences(*sequence, *right.sequence());
  }
  if (const Dict* dict = left.dict()) return equal_dicts(*dict, *right.dict());
  if (left.is<Namespace*>()) return left.as<Namespace*>() == right.as<Namespace*>();
  if (left.is<Function>()) return left.as<Function>() == right.as<Function>();
  if (left.is<std::shared_ptr<const Macro>>()) {
    return left.as<std::shared_ptr<const Macro>>() == right.as<std::shared_ptr<const Macro>>();
  }
  return false;
}

bool less(const Value& left, const Value& right, std::string_view op) {
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == -1;
  if (left.text() && right.text()) return *left.text() < *right.text();
  const Sequence* a = left.sequence();
  const Sequence* b = right.sequence();
  if (is_ordered(a) && is_ordered(b) && a->kind == b->kind) {
    const size_t common = std::min(a->items.size(), b->items.size());
    for (size_t i = 0; i < common; ++i) {
      if (!equal(a->items[i], b->items[i])) return less(a->items[i], b->items[i], op);
    }
    return a->items.size() < b->items.size();
  }
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) fail(ErrorKind::kInput, side->as<Undefined>().what);
  }
  fail(ErrorKind::kInput, "'", op, "' is not supported between '", type_name(left), "' and '",
       type_name(right), "'");
}

}  // namespace colibri::jinja
