// Values of a chat template: Python's, as far as templates can tell. Containers are immutable once
// they are built and shared; namespaces belong to the render that made them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "model/template_limits.h"

namespace colibri::jinja {

class Scope;
struct Node;
struct Value;

struct Undefined {
  std::string what;  // "'name' is undefined": what is said when it is used
};
struct None {};
using Text = std::shared_ptr<const std::string>;

enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kRange,      // a list that prints itself as range(...)
  kView,       // dict.items(), .keys(), .values(): has a length, no items by index
  kGenerator,  // map, select, ...: runs out when it is read once, has no length
};

// How deep a value is and how many bytes it would take written out as a tree; what is shared counts
// each time, so that printing and comparing are bounded too.
struct Extent {
  int depth = 0;
  size_t bytes = 16;
  // Fails with kInput beyond kMaxValueDepth and kMaxValueBytes.
  void enclose(const Extent& inner);
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  std::string printed;  // kRange, kView: what stands before or instead of the items
  Extent extent{1};
  mutable bool read = false;  // kGenerator
};

// Keeps the order of insertion; keys that are equal (1, 1.0 and true) are one.
class Dict {
 public:
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces the value of an equal key, which keeps its place.
  void set(const Value& key, Value value);
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  const Extent& extent() const { return extent_; }

 private:
  const size_t* position(const Value& key) const;
  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string, size_t> index_;
  Extent extent_{1};
};

// What set writes to with a dot; compared by identity.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

struct Macro {
  const Node* node = nullptr;
  std::weak_ptr<Scope> scope;  // weak: the scope holds the macro
};

struct Method;
struct LoopState;
enum class Function : uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

struct Value {
  using Held =
      std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<const Macro>,
                   std::shared_ptr<const Method>, std::shared_ptr<LoopState>, Function>;
  Held held;

  Value() : held(None{}) {}
  template <class T>
  requires std::is_constructible_v<Held, T> Value(T value) : held(std::move(value)) {}
  Value(std::string text) : held(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char*) = delete;
  Value(int) = delete;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(held);
  }
  template <class T>
  const T& as() const {
    return std::get<T>(held);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  const std::string* text() const { return is<Text>() ? as<Text>().get() : nullptr; }
  const Sequence* sequence() const {
    return is<std::shared_ptr<const Sequence>>() ? as<std::shared_ptr<const Sequence>>().get()
                                                 : nullptr;
  }
  const Dict* dict() const {
    return is<std::shared_ptr<const Dict>>() ? as<std::shared_ptr<const Dict>>().get() : nullptr;
  }
  // bool, int or float, as Python counts them.
  bool is_number() const { return is<bool>() || is<int64_t>() || is<double>(); }
  bool is_integral() const { return is<bool>() || is<int64_t>(); }
  int64_t integer() const { return is<bool>() ? int64_t{as<bool>()} : as<int64_t>(); }
  double real() const { return is<double>() ? as<double>() : static_cast<double>(integer()); }
};

// A method that is bound to a value and not called yet.
struct Method {
  Value self;
  std::string name;
};

// The `loop` of a for.
struct LoopState {
  const std::vector<Value>* items = nullptr;  // null once the loop is over
  size_t at = 0;
};

Extent extent_of(const Value& value);
// Fails with kInput when containers nest too deep or hold too much (Extent).
Value make_sequence(SequenceKind kind, std::vector<Value> items, std::string printed = {});
Value make_list(std::vector<Value> items);
Value make_dict(Dict dict);

// Python's name of the type: "str", "NoneType", "dict".
std::string type_name(const Value& value);
bool is_true(const Value& value);
bool equal(const Value& left, const Value& right);
// Python's `<`; fails with kInput, naming both types, for what has no order.
bool less(const Value& left, const Value& right, std::string_view op = "<");

}  // namespace colibri::jinja
