// Runs the tree of a template. One interpreter renders once; it is used by one thread.
#pragma once

#include <ctime>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/template_builtins.h"
#include "model/template_nodes.h"

namespace colibri::jinja {

// Variables of a template, a loop turn, a macro call or a block.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}
  // Here or in a scope around this one; null if there is none.
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<std::string, Value>> variables_;
};

struct RenderLimits {
  int64_t max_steps = 10'000'000;             // nodes evaluated, items and 64 bytes read
  size_t max_output_bytes = size_t{1} << 24;  // of the text
  size_t max_made_bytes = size_t{1} << 28;    // of all values made on the way
};

class Interpreter {
 public:
  Interpreter(const RenderLimits& limits, const std::tm& now) : limits_(limits), now_(now) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Fails with kInput naming the line. `variables` are what the template starts with.
  std::string run(const Node& root, const Dict& variables);

  // For builtins.

  // What `for` goes through. A generator is empty the second time.
  std::vector<Value> items_of(const Value& value);
  Value text(std::string text);
  Value texts(const std::vector<std::string_view>& parts);
  Value filter(const Builtin& builtin, const Value& self, std::vector<Value> values);
  bool test(const Builtin& builtin, const Value& self, std::vector<Value> values);
  // object.name and object[index] as Jinja finds them: undefined where there is nothing.
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& index);
  bool contains(const Value& container, const Value& item);
  Value make_namespace();
  const std::tm& now() const { return now_; }
  // Counts what is about to be made or read. Fails with kInput beyond the limits.
  void charge_made(size_t num_bytes);
  void charge_read(const Value& value);
  void charge_steps(int64_t num_steps);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // One node under way: its line, and how many there are. An error on its way out keeps the line it
  // arose in.
  class Descent {
   public:
    Descent(Interpreter& run, const Node& node);
    ~Descent();
    Descent(const Descent&) = delete;
    Descent& operator=(const Descent&) = delete;

   private:
    Interpreter& run_;
    const int line_;
    const int exceptions_ = std::uncaught_exceptions();
  };

  Flow execute(const Node& node);
  Flow execute_body(const Node& node);
  Flow execute_if(const Node& node);
  Flow execute_for(const Node& node);
  std::vector<Value> kept_items(const Node& node, std::vector<Value> items);
  void execute_set(const Node& node);
  void set_attribute(const Node& node);
  Flow in_scope(const std::shared_ptr<Scope>& scope, const Node& body);
  // The text that `body` writes in a scope of its own.
  Value captured(const std::shared_ptr<Scope>& scope, const Node& body, Flow& flow);
  void assign(const Node& target, const Value& value);
  void write(std::string_view text);

  Value evaluate(const Node& node);
  Value evaluate_node(const Node& node);
  Value variable(const std::string& name);
  Value concatenation(const Node& node);
  Value comparison(const Node& node);
  Value slice(const Node& node);
  Value dict(const Node& node);
  std::vector<Value> values(const Node& node, size_t first);
  Value call(const Node& node);
  Value call_method(const Node& node);
  Value call_value(const Value& callee, std::vector<Value> values,
                   const std::vector<std::string>& keywords);
  Value call_builtin(const Builtin& builtin, const Value& self, std::vector<Value> values,
                     const std::vector<std::string>& keywords);
  Value call_macro(const Macro& macro, std::vector<Value> values,
                   const std::vector<std::string>& keywords);

  const RenderLimits limits_;
  const std::tm now_;
  const Dict* variables_ = nullptr;
  std::vector<std::unique_ptr<Namespace>> namespaces_;  // outlive all values of a render
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  int line_ = 1;
  int depth_ = 0;
  int num_captures_ = 0;
  int64_t num_steps_ = 0;
  size_t made_bytes_ = 0;
};

// Operators, in template_operators.cc. They fail with kInput for types they do not work on.
Value binary(Interpreter& run, const std::string& op, const Value& left, const Value& right);
Value unary(const std::string& op, const Value& operand);
bool compare(Interpreter& run, const std::string& op, const Value& left, const Value& right);
Value slice_of(Interpreter& run, const Value& object, const Value (&bounds)[3]);
// `loop`'s attributes; undefined for what it has not.
Value loop_attribute(const LoopState& loop, const std::string& name);
// Fails with what was said about the value if it is undefined.
void refuse_undefined(const Value& value);

}  // namespace colibri::jinja
