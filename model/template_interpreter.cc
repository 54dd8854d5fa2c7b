#include "model/template_interpreter.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/template_print.h"
#include "model/template_text.h"

namespace colibri::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent_.get()) {
    for (const auto& [key, value] : scope->variables_) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, old] : variables_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables_.emplace_back(name, std::move(value));
}

Interpreter::Descent::Descent(Interpreter& run, const Node& node) : run_(run), line_(run.line_) {
  run_.line_ = node.line;
  run_.charge_steps(1);
  if (++run_.depth_ > kMaxCallDepth) {
    fail(ErrorKind::kInput, "tags, expressions and macros nest deeper than ", kMaxCallDepth);
  }
}

Interpreter::Descent::~Descent() {
  --run_.depth_;
  if (std::uncaught_exceptions() == exceptions_) run_.line_ = line_;
}

std::string Interpreter::run(const Node& root, const Dict& variables) {
  std::string out;
  out_ = &out;
  variables_ = &variables;
  scope_ = std::make_shared<Scope>(nullptr);
  try {
    execute(root);
  } catch (const Error& error) {
    fail(error.kind(), "chat template, line ", line_, ": ", error.what());
  }
  return out;
}

void Interpreter::charge_steps(int64_t num_steps) {
  num_steps_ += num_steps;
  if (num_steps_ > limits_.max_steps) {
    fail(ErrorKind::kInput, "more than ", limits_.max_steps, " steps; does a loop run away?");
  }
}

void Interpreter::charge_made(size_t num_bytes) {
  if (num_bytes > limits_.max_made_bytes - made_bytes_) {
    fail(ErrorKind::kInput, "values of more than ", limits_.max_made_bytes, " bytes were made");
  }
  made_bytes_ += num_bytes;
}

void Interpreter::charge_read(const Value& value) {
  charge_steps(static_cast<int64_t>(extent_of(value).bytes / 64));
}

Value Interpreter::text(std::string text) {
  if (text.size() > kMaxValueBytes) {
    fail(ErrorKind::kInput, "a string of more than ", kMaxValueBytes, " bytes");
  }
  charge_made(text.size());
  return Value(std::move(text));
}

Value Interpreter::texts(const std::vector<std::string_view>& parts) {
  charge_made(parts.size() * 128);
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(text(std::string(part)));
  return make_list(std::move(items));
}

Value Interpreter::make_namespace() {
  charge_made(sizeof(Namespace));
  namespaces_.push_back(std::make_unique<Namespace>());
  return Value(namespaces_.back().get());
}

std::vector<Value> Interpreter::items_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (const std::string* characters_of = value.text()) {
    charge_made(static_cast<size_t>(num_characters(*characters_of)) * 128);
    std::vector<Value> items;
    for (const std::string_view part : characters(*characters_of)) {
      items.emplace_back(std::string(part));
    }
    return items;
  }
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    charge_made(dict->items().size() * sizeof(Value));
    for (const auto& [key, item] : dict->items()) items.push_back(key);
  } else if (const Sequence* sequence = value.sequence()) {
    if (sequence->kind == SequenceKind::kGenerator && std::exchange(sequence->read, true))
      return {};
    charge_made(sequence->items.size() * sizeof(Value));
    items = sequence->items;
  } else {
    fail(ErrorKind::kInput, "'", type_name(value), "' object is not iterable");
  }
  charge_steps(static_cast<int64_t>(items.size()));
  return items;
}

void Interpreter::write(std::string_view text) {
  if (num_captures_ > 0) charge_made(text.size());
  if (text.size() > limits_.max_output_bytes - out_->size()) {
    fail(ErrorKind::kInput, "a text of more than ", limits_.max_output_bytes, " bytes");
  }
  out_->append(text);
}

Interpreter::Flow Interpreter::execute(const Node& node) {
  const Descent descent(*this, node);
  switch (node.kind) {
    case NodeKind::kBody:
      return execute_body(node);
    case NodeKind::kText:
      write(*node.constant.text());
      return Flow::kNext;
    case NodeKind::kOutput: {
      const Value value = evaluate(*node.children[0]);
      charge_read(value);
      write(value.text() ? *value.text() : to_text(value));
      return Flow::kNext;
    }
    case NodeKind::kIf:
      return execute_if(node);
    case NodeKind::kFor:
      return execute_for(node);
    case NodeKind::kSet:
    case NodeKind::kSetBlock:
      execute_set(node);
      return Flow::kNext;
    case NodeKind::kSetAttribute:
      set_attribute(node);
      return Flow::kNext;
    case NodeKind::kMacro:
      scope_->set(node.name, Value(std::make_shared<const Macro>(Macro{&node, scope_})));
      return Flow::kNext;
    case NodeKind::kGeneration:
      return in_scope(std::make_shared<Scope>(scope_), *node.children[0]);
    case NodeKind::kBreak:
      return Flow::kBreak;
    case NodeKind::kContinue:
      return Flow::kContinue;
    case NodeKind::kConstant:
    case NodeKind::kName:
    case NodeKind::kAttribute:
    case NodeKind::kItem:
    case NodeKind::kSlice:
    case NodeKind::kList:
    case NodeKind::kTuple:
    case NodeKind::kDict:
    case NodeKind::kUnary:
    case NodeKind::kBinary:
    case NodeKind::kCompare:
    case NodeKind::kAnd:
    case NodeKind::kOr:
    case NodeKind::kConcat:
    case NodeKind::kConditional:
    case NodeKind::kCall:
    case NodeKind::kMethodCall:
    case NodeKind::kFilter:
    case NodeKind::kTest:
      break;
  }
  fail(ErrorKind::kInternal, "an expression stands where a tag is wanted");
}

Interpreter::Flow Interpreter::execute_body(const Node& node) {
  for (const NodePtr& child : node.children) {
    const Flow flow = execute(*child);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Node& node) {
  size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2) {
    if (is_true(evaluate(*node.children[i]))) return execute(*node.children[i + 1]);
  }
  return i < node.children.size() ? execute(*node.children[i]) : Flow::kNext;
}

Interpreter::Flow Interpreter::in_scope(const std::shared_ptr<Scope>& scope, const Node& body) {
  // Put back also when an error passes: a macro's scope would be left in place otherwise.
  struct Restore {
    std::shared_ptr<Scope>& place;
    std::shared_ptr<Scope> before;
    ~Restore() { place = std::move(before); }
  } restore{scope_, scope_};
  scope_ = scope;
  return execute(body);
}

Value Interpreter::captured(const std::shared_ptr<Scope>& scope, const Node& body, Flow& flow) {
  std::string out;
  std::string* const before = out_;
  out_ = &out;
  ++num_captures_;
  flow = in_scope(scope, body);
  --num_captures_;
  out_ = before;
  return Value(std::move(out));
}

std::vector<Value> Interpreter::kept_items(const Node& node, std::vector<Value> items) {
  if (!node.children[2]) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const std::shared_ptr<Scope> outer = scope_;
    scope_ = std::make_shared<Scope>(outer);
    assign(*node.children[0], item);
    const bool is_kept = is_true(evaluate(*node.children[2]));
    scope_ = outer;
    if (is_kept) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::execute_for(const Node& node) {
  const std::vector<Value> items = kept_items(node, items_of(evaluate(*node.children[1])));
  const auto state = std::make_shared<LoopState>();
  state->items = &items;
  // A `loop` that was kept in a namespace outlives its items.
  struct Close {
    LoopState& state;
    ~Close() { state.items = nullptr; }
  } close{*state};
  const std::shared_ptr<Scope> outer = scope_;
  bool is_else_taken =
      true;  // unless a turn came to its end: Jinja counts neither break nor continue
  for (; state->at < items.size(); ++state->at) {
    charge_steps(1);
    const auto scope = std::make_shared<Scope>(outer);
    scope->set("loop", Value(state));
    scope_ = scope;
    assign(*node.children[0], items[state->at]);
    scope_ = outer;
    const Flow flow = in_scope(scope, *node.children[3]);
    is_else_taken = is_else_taken && flow != Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (is_else_taken && node.children[4]) {
    return in_scope(std::make_shared<Scope>(outer), *node.children[4]);
  }
  return Flow::kNext;
}

void Interpreter::execute_set(const Node& node) {
  if (node.kind == NodeKind::kSet) {
    assign(*node.children[0], evaluate(*node.children[1]));
    return;
  }
  Flow flow = Flow::kNext;
  const Value value = captured(std::make_shared<Scope>(scope_), *node.children[1], flow);
  assign(*node.children[0], value);
}

void Interpreter::set_attribute(const Node& node) {
  const Value value = evaluate(*node.children[0]);
  const Value target = variable(node.names[0]);
  if (!target.is<Namespace*>()) {
    fail(ErrorKind::kInput, "set of '", node.names[0], ".", node.names[1], "' wants a namespace, '",
         node.names[0], "' is a ", type_name(target));
  }
  target.as<Namespace*>()->set(node.names[1], value);
}

void Interpreter::assign(const Node& target, const Value& value) {
  if (target.kind == NodeKind::kName) {
    scope_->set(target.name, value);
    return;
  }
  if (value.is_undefined()) refuse_undefined(value);
  const std::vector<Value> parts = items_of(value);
  if (parts.size() != target.children.size()) {
    fail(ErrorKind::kInput, "got ", parts.size(), " values to unpack, want ",
         target.children.size());
  }
  for (size_t i = 0; i < parts.size(); ++i) assign(*target.children[i], parts[i]);
}

}  // namespace colibri::jinja
