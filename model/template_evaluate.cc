// Expressions.
#include <algorithm>

#include "base/error.h"
#include "model/printable.h"
#include "model/template_interpreter.h"
#include "model/template_print.h"
#include "model/template_text.h"

namespace colibri::jinja {
namespace {

Value undefined(std::string what) { return Value(Undefined{std::move(what)}); }

// Methods that would change a value: the sandbox hides them, and the key behind them.
bool is_hidden(const Value& object, std::string_view name) {
  if (!object.dict()) return false;
  return name == "clear" || name == "pop" || name == "popitem" || name == "setdefault" ||
         name == "update";
}

Value no_attribute(const Value& object, const std::string& name) {
  const std::string type = object.is_none() ? "None" : "'" + type_name(object) + " object'";
  return undefined(type + " has no attribute '" + printable(name, 60) + "'");
}

}  // namespace

void refuse_undefined(const Value& value) {
  if (value.is_undefined()) fail(ErrorKind::kInput, value.as<Undefined>().what);
}

Value Interpreter::evaluate(const Node& node) {
  const Descent descent(*this, node);
  return evaluate_node(node);
}

Value Interpreter::evaluate_node(const Node& node) {
  const auto child = [this, &node](size_t i) { return evaluate(*node.children[i]); };
  switch (node.kind) {
    case NodeKind::kConstant:
      return node.constant;
    case NodeKind::kName:
      return variable(node.name);
    case NodeKind::kAttribute:
      return attribute(child(0), node.name);
    case NodeKind::kItem: {
      const Value object = child(0);
      return item(object, child(1));
    }
    case NodeKind::kSlice:
      return slice(node);
    case NodeKind::kList:
      return make_list(values(node, 0));
    case NodeKind::kTuple:
      return make_sequence(SequenceKind::kTuple, values(node, 0));
    case NodeKind::kDict:
      return dict(node);
    case NodeKind::kUnary:
      return unary(node.name, child(0));
    case NodeKind::kBinary: {
      const Value left = child(0);
      return binary(*this, node.name, left, child(1));
    }
    case NodeKind::kCompare:
      return comparison(node);
    case NodeKind::kAnd: {
      Value left = child(0);
      return is_true(left) ? child(1) : left;
    }
    case NodeKind::kOr: {
      Value left = child(0);
      return is_true(left) ? left : child(1);
    }
    case NodeKind::kConcat:
      return concatenation(node);
    case NodeKind::kConditional:
      if (is_true(child(0))) return child(1);
      if (node.children[2]) return child(2);
      return undefined("an inline 'if' without 'else' has no value");
    case NodeKind::kCall:
      return call(node);
    case NodeKind::kMethodCall:
      return call_method(node);
    case NodeKind::kFilter:
    case NodeKind::kTest: {
      const Value self = child(0);
      return call_builtin(*node.builtin, self, values(node, 1), node.names);
    }
    case NodeKind::kBody:
    case NodeKind::kText:
    case NodeKind::kOutput:
    case NodeKind::kIf:
    case NodeKind::kFor:
    case NodeKind::kSet:
    case NodeKind::kSetBlock:
    case NodeKind::kSetAttribute:
    case NodeKind::kMacro:
    case NodeKind::kGeneration:
    case NodeKind::kBreak:
    case NodeKind::kContinue:
      break;
  }
  fail(ErrorKind::kInternal, "a tag stands where an expression is wanted");
}

Value Interpreter::variable(const std::string& name) {
  if (const Value* value = scope_->find(name)) return *value;
  if (const Value* value = variables_->find(std::string_view(name))) return *value;
  static constexpr std::pair<std::string_view, Function> kFunctions[] = {
      {"range", Function::kRange},
      {"namespace", Function::kNamespace},
      {"dict", Function::kDict},
      {"raise_exception", Function::kRaiseException},
      {"strftime_now", Function::kStrftimeNow}};
  for (const auto& [key, function] : kFunctions) {
    if (key == name) return Value(function);
  }
  return undefined("'" + printable(name, 60) + "' is undefined");
}

Value Interpreter::attribute(const Value& object, const std::string& name) {
  refuse_undefined(object);
  if (has_method(object, name)) {
    return Value(std::make_shared<const Method>(Method{object, name}));
  }
  const Value* found = nullptr;
  if (object.is<Namespace*>()) {
    found = object.as<Namespace*>()->find(name);
  } else if (const Dict* dict = object.dict()) {
    found = is_hidden(object, name) ? nullptr : dict->find(std::string_view(name));
  } else if (object.is<std::shared_ptr<LoopState>>()) {
    return loop_attribute(*object.as<std::shared_ptr<LoopState>>(), name);
  }
  return found ? *found : no_attribute(object, name);
}

Value Interpreter::item(const Value& object, const Value& index) {
  refuse_undefined(object);
  if (const Dict* dict = object.dict()) {
    const bool is_key = index.text() || index.is_number() || index.is_none();
    if (const Value* found = is_key ? dict->find(index) : nullptr) return *found;
  } else if (index.is_integral()) {
    int64_t at = index.integer();
    if (const std::string* text = object.text()) {
      charge_read(object);
      const std::vector<std::string_view> all = characters(*text);
      if (at < 0) at += static_cast<int64_t>(all.size());
      if (at >= 0 && static_cast<size_t>(at) < all.size()) {
        return this->text(std::string(all[static_cast<size_t>(at)]));
      }
    }
    if (const Sequence* sequence = object.sequence();
        sequence && sequence->kind <= SequenceKind::kRange) {
      const auto size = static_cast<int64_t>(sequence->items.size());
      if (at < 0) at += size;
      if (at >= 0 && at < size) return sequence->items[static_cast<size_t>(at)];
    }
  }
  if (const std::string* name = index.text()) {
    if (!object.dict() || has_method(object, *name)) return attribute(object, *name);
  }
  return no_attribute(object, index.text() ? *index.text() : "[]");
}

Value Interpreter::concatenation(const Node& node) {
  std::string result;
  for (const NodePtr& child : node.children) {
    const Value value = evaluate(*child);
    charge_read(value);
    const std::string part = to_text(value);
    charge_made(part.size());
    result += part;
  }
  return text(std::move(result));
}

Value Interpreter::comparison(const Node& node) {
  Value left = evaluate(*node.children[0]);
  for (size_t i = 0; i < node.names.size(); ++i) {
    Value right = evaluate(*node.children[i + 1]);
    if (!compare(*this, node.names[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::slice(const Node& node) {
  const Value object = evaluate(*node.children[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (node.children[i + 1]) bounds[i] = evaluate(*node.children[i + 1]);
  }
  return slice_of(*this, object, bounds);
}

Value Interpreter::dict(const Node& node) {
  charge_made(node.children.size() * 2 * sizeof(Value));
  Dict result;
  for (size_t i = 0; i < node.children.size(); i += 2) {
    const Value key = evaluate(*node.children[i]);
    result.set(key, evaluate(*node.children[i + 1]));
  }
  return make_dict(std::move(result));
}

std::vector<Value> Interpreter::values(const Node& node, size_t first) {
  charge_made((node.children.size() - first) * sizeof(Value));
  std::vector<Value> result;
  for (size_t i = first; i < node.children.size(); ++i) {
    result.push_back(evaluate(*node.children[i]));
  }
  return result;
}

Value Interpreter::call(const Node& node) {
  const Value callee = evaluate(*node.children[0]);
  return call_value(callee, values(node, 1), node.names);
}

Value Interpreter::call_method(const Node& node) {
  const Value self = evaluate(*node.children[0]);
  if (!has_method(self, node.name)) {
    const Value callee = attribute(self, node.name);
    return call_value(callee, values(node, 1), node.names);
  }
  return call_builtin(*node.builtin, self, values(node, 1), node.names);
}

Value Interpreter::call_value(const Value& callee, std::vector<Value> values,
                              const std::vector<std::string>& keywords) {
  refuse_undefined(callee);
  if (callee.is<Function>()) {
    const auto function = callee.as<Function>();
    if (function == Function::kNamespace || function == Function::kDict) {
      // Their keywords are anything.
      if (values.size() != keywords.size()) {
        fail(ErrorKind::kUnsupported, builtin_of(function).name,
             "() takes keyword arguments only here");
      }
      Value result = function == Function::kDict ? Value() : make_namespace();
      Dict dict;
      for (size_t i = 0; i < values.size(); ++i) {
        if (function == Function::kDict) {
          dict.set(Value(keywords[i]), std::move(values[i]));
        } else {
          result.as<Namespace*>()->set(keywords[i], std::move(values[i]));
        }
      }
      return function == Function::kDict ? make_dict(std::move(dict)) : result;
    }
    return call_builtin(builtin_of(function), Value(), std::move(values), keywords);
  }
  if (callee.is<std::shared_ptr<const Macro>>()) {
    return call_macro(*callee.as<std::shared_ptr<const Macro>>(), std::move(values), keywords);
  }
  if (callee.is<std::shared_ptr<const Method>>()) {
    const Method& method = *callee.as<std::shared_ptr<const Method>>();
    return call_builtin(*find_method(method.name), method.self, std::move(values), keywords);
  }
  fail(ErrorKind::kInput, "'", type_name(callee), "' object is not callable");
}

Value Interpreter::call_builtin(const Builtin& builtin, const Value& self,
                                std::vector<Value> values,
                                const std::vector<std::string>& keywords) {
  charge_read(self);
  for (const Value& value : values) charge_read(value);
  const Arguments arguments = bind(builtin, self, std::move(values), keywords);
  return builtin.call(*this, arguments);
}

Value Interpreter::filter(const Builtin& builtin, const Value& self, std::vector<Value> values) {
  charge_steps(1);
  return call_builtin(builtin, self, std::move(values), {});
}

bool Interpreter::test(const Builtin& builtin, const Value& self, std::vector<Value> values) {
  return is_true(filter(builtin, self, std::move(values)));
}

Value Interpreter::call_macro(const Macro& macro, std::vector<Value> values,
                              const std::vector<std::string>& keywords) {
  const Node& node = *macro.node;
  const std::shared_ptr<Scope> around = macro.scope.lock();
  if (!around) fail(ErrorKind::kInput, "macro '", node.name, "' is called after its scope ended");
  const size_t num_positional = values.size() - keywords.size();
  if (num_positional > node.names.size()) {
    fail(ErrorKind::kInput, "macro '", node.name, "' takes ", node.names.size(), " arguments, got ",
         num_positional);
  }
  std::vector<std::optional<Value>> given(node.names.size());
  for (size_t i = 0; i < values.size(); ++i) {
    size_t at = i;
    if (i >= num_positional) {
      const std::string& keyword = keywords[i - num_positional];
      const auto found = std::find(node.names.begin(), node.names.end(), keyword);
      at = static_cast<size_t>(found - node.names.begin());
      if (found == node.names.end() || given[at]) {
        fail(ErrorKind::kInput, "macro '", node.name, "' got ",
             found == node.names.end() ? "no parameter '" : "twice the parameter '", keyword, "'");
      }
    }
    given[at] = std::move(values[i]);
  }
  const auto scope = std::make_shared<Scope>(around);
  const std::shared_ptr<Scope> caller = scope_;
  scope_ = scope;
  for (size_t i = 0; i < node.names.size(); ++i) {
    Value value = given[i]           ? std::move(*given[i])
                  : node.children[i] ? evaluate(*node.children[i])
                                     : undefined("parameter '" + node.names[i] + "' was not given");
    scope->set(node.names[i], std::move(value));
  }
  scope_ = caller;
  Flow flow = Flow::kNext;
  return captured(scope, *node.children.back(), flow);
}

}  // namespace colibri::jinja
