// What follows an expression: attributes, subscripts, calls, filters and tests.
#include <string>

#include "base/error.h"
#include "model/printable.h"
#include "model/template_builtins.h"
#include "model/template_parser.h"

namespace colibri::jinja {
namespace {

// Runs a check of builtins and puts the line before what it says.
template <class Check>
void at_line(int line, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    refuse_at(line, error.what());
  }
}

}  // namespace

NodePtr ExpressionParser::postfix(NodePtr node) {
  while (true) {
    if (is_operator(".")) {
      node = attribute(std::move(node));
    } else if (is_operator("[")) {
      node = subscript(std::move(node));
    } else if (is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

NodePtr ExpressionParser::filters(NodePtr node) {
  while (true) {
    if (is_operator("|")) {
      node = filter(std::move(node));
    } else if (is_name("is")) {
      node = test(std::move(node));
    } else if (is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

NodePtr ExpressionParser::attribute(NodePtr object) {
  Node node = node_at(NodeKind::kAttribute, take().line);
  node.children.push_back(std::move(object));
  if (current().kind == TokenKind::kInteger) {
    node.kind = NodeKind::kItem;
    Node index = node_at(NodeKind::kConstant, line());
    index.constant = number_of(take());
    node.children.push_back(finish(std::move(index)));
    return finish(std::move(node));
  }
  node.name = expect_name("a name or number after '.'");
  if (!is_operator("(")) return finish(std::move(node));
  node.builtin = find_method(node.name);
  if (!node.builtin) {
    refuse_at(node.line, "the method '" + printable(node.name) + "' is not supported; there are " +
                             method_names());
  }
  node.kind = NodeKind::kMethodCall;
  arguments(node);
  return finish(std::move(node));
}

NodePtr ExpressionParser::subscript(NodePtr object) {
  Node node = node_at(NodeKind::kItem, take().line);
  node.children.push_back(std::move(object));
  const auto part = [this] {
    return is_operator(":") || is_operator("]") ? nullptr : expression();
  };
  node.children.push_back(part());
  if (skip_operator(":")) {
    node.kind = NodeKind::kSlice;
    node.children.push_back(part());
    node.children.push_back(skip_operator(":") ? part() : nullptr);
  } else if (!node.children[1]) {
    fail_here("an index");
  }
  if (is_operator(",")) refuse_at(line(), "an index of several parts is not supported");
  expect_operator("]");
  return finish(std::move(node));
}

NodePtr ExpressionParser::call(NodePtr callee) {
  Node node = node_at(NodeKind::kCall, line());
  if (callee->kind == NodeKind::kName) {
    for (const std::string_view name : {"lipsum", "cycler", "joiner", "caller", "super"}) {
      if (callee->name == name) {
        refuse_at(node.line, "the function '" + callee->name + "' is not supported; there are " +
                                 "range, namespace, dict, raise_exception, strftime_now");
      }
    }
  }
  node.children.push_back(std::move(callee));
  arguments(node);
  return finish(std::move(node));
}

void ExpressionParser::arguments(Node& node) {
  expect_operator("(");
  bool is_first = true;
  while (!is_operator(")")) {
    if (!is_first) expect_operator(",");
    is_first = false;
    if (is_operator(")")) break;
    if (is_operator("*") || is_operator("**")) {
      refuse_at(line(), "arguments with '*' are not supported");
    }
    if (current().kind == TokenKind::kName && next().kind == TokenKind::kOperator &&
        next().text == "=") {
      node.names.push_back(take().text);
      take();
    } else if (!node.names.empty()) {
      fail_here("a keyword argument");
    }
    node.children.push_back(expression());
  }
  expect_operator(")");
  if (!node.builtin) return;
  at_line(node.line, [&] { check_arguments(*node.builtin, node.children.size() - 1, node.names); });
}

NodePtr ExpressionParser::filter(NodePtr input) {
  Node node = node_at(NodeKind::kFilter, take().line);
  node.children.push_back(std::move(input));
  node.name = expect_name("the name of a filter");
  node.builtin = find_filter(node.name);
  if (!node.builtin) {
    refuse_at(node.line, "the filter '" + printable(node.name) + "' is not supported; there are " +
                             filter_names());
  }
  if (is_operator("(")) {
    arguments(node);
  } else {
    at_line(node.line, [&] { check_arguments(*node.builtin, 0, {}); });
  }
  return finish(std::move(node));
}

NodePtr ExpressionParser::test(NodePtr input) {
  Node node = node_at(NodeKind::kTest, take().line);
  const bool is_negated = skip_name("not");
  node.children.push_back(std::move(input));
  node.name = expect_name("the name of a test");
  node.builtin = find_test(node.name);
  if (!node.builtin) {
    refuse_at(node.line, "the test '" + printable(node.name) + "' is not supported; there are " +
                             test_names());
  }
  const bool is_value = current().kind == TokenKind::kString ||
                        current().kind == TokenKind::kInteger ||
                        current().kind == TokenKind::kReal || is_operator("[") || is_operator("{");
  const bool is_word =
      current().kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and");
  if (is_operator("(")) {
    arguments(node);
  } else {
    if (is_word && is_name("is")) fail_here("one test; tests with 'is' do not chain");
    if (is_value || is_word) node.children.push_back(postfix(primary()));
    at_line(node.line, [&] { check_arguments(*node.builtin, node.children.size() - 1, {}); });
  }
  NodePtr result = finish(std::move(node));
  if (!is_negated) return result;
  Node negated = node_at(NodeKind::kUnary, result->line, "not");
  negated.children.push_back(std::move(result));
  return finish(std::move(negated));
}

}  // namespace colibri::jinja
