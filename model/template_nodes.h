// The tree of a template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/template_value.h"

namespace colibri::jinja {

struct Builtin;
struct Node;
using NodePtr = std::unique_ptr<const Node>;

// What stands in `children`; an optional one that is absent is null.
enum class NodeKind : uint8_t {
  // expressions
  kConstant,     // the value in `constant`
  kName,         // the variable `name`
  kAttribute,    // [object].name
  kItem,         // [object, index]
  kSlice,        // [object, begin, end, step]
  kList,         // items
  kTuple,        // items
  kDict,         // key, value, key, value, ...
  kUnary,        // [operand], name is "-", "+" or "not"
  kBinary,       // [left, right], name is the operator
  kCompare,      // [first, second, ...], names are the operators between them
  kAnd,          // [left, right]
  kOr,           // [left, right]
  kConcat,       // parts joined by ~
  kConditional,  // [condition, then, else]
  kCall,         // [callee, arguments...], names are the keywords of the last arguments
  kMethodCall,   // [object, arguments...], likewise; `builtin` is the method
  kFilter,       // [input, arguments...], likewise; `builtin` is the filter
  kTest,         // [input, arguments...], likewise; `builtin` is the test
  // statements
  kBody,          // statements
  kText,          // the text in `constant`
  kOutput,        // [expression]
  kIf,            // condition, body, condition, body, ..., and the else body if the count is odd
  kFor,           // [target, iterable, condition, body, else body]
  kSet,           // [target, value]
  kSetBlock,      // [target, body]
  kSetAttribute,  // [value]; names are the namespace and the attribute
  kMacro,         // a default for each of `names`, then the body
  kGeneration,    // [body]
  kBreak,
  kContinue,
};

struct Node {
  NodeKind kind = NodeKind::kBody;
  int line = 1;
  int depth = 1;  // height of the tree below and with it
  std::string name;
  Value constant;
  std::vector<NodePtr> children;
  std::vector<std::string> names;
  const Builtin* builtin = nullptr;
};

}  // namespace colibri::jinja
