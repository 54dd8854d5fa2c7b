#include <array>
#include <charconv>
#include <cstdlib>

#include "model/printable.h"
#include "model/template_parser.h"

namespace colibri::jinja {
namespace {

bool is_constant_name(const std::string& name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

Value constant_of(const std::string& name) {
  if (name == "none" || name == "None") return Value();
  return Value(name == "true" || name == "True");
}

}  // namespace

Node node_at(NodeKind kind, int line, std::string name) {
  Node node;
  node.kind = kind;
  node.line = line;
  node.name = std::move(name);
  return node;
}

Value number_of(const Token& token) {
  const char* const begin = token.text.data();
  const char* const end = begin + token.text.size();
  if (token.kind == TokenKind::kReal) {
    double real = 0;
    // Unlike strtod it reads "1.5" in every locale.
    const bool is_huge = std::from_chars(begin, end, real).ec == std::errc::result_out_of_range;
    return is_huge ? Value(std::strtod(begin, nullptr)) : Value(real);
  }
  int64_t integer = 0;
  const auto read = std::from_chars(begin, end, integer);
  if (read.ec != std::errc()) {
    refuse_at(token.line, "integers have 64 bits here, got " + printable(token.text));
  }
  return Value(integer);
}

NodePtr ExpressionParser::expression(bool with_conditional) {
  const Descent descent(*this);
  return with_conditional ? conditional() : disjunction();
}

NodePtr ExpressionParser::conditional() {
  NodePtr result = disjunction();
  while (is_name("if")) {
    Node node = node_at(NodeKind::kConditional, line());
    take();
    node.children.push_back(disjunction());
    node.children.push_back(std::move(result));
    node.children.push_back(skip_name("else") ? expression() : nullptr);
    result = finish(std::move(node));
  }
  return result;
}

NodePtr ExpressionParser::disjunction() {
  NodePtr result = conjunction();
  while (is_name("or")) {
    Node node = node_at(NodeKind::kOr, take().line);
    node.children.push_back(std::move(result));
    node.children.push_back(conjunction());
    result = finish(std::move(node));
  }
  return result;
}

NodePtr ExpressionParser::conjunction() {
  NodePtr result = negation();
  while (is_name("and")) {
    Node node = node_at(NodeKind::kAnd, take().line);
    node.children.push_back(std::move(result));
    node.children.push_back(negation());
    result = finish(std::move(node));
  }
  return result;
}

NodePtr ExpressionParser::negation() {
  if (!is_name("not")) return comparison();
  const Descent descent(*this);
  Node node = node_at(NodeKind::kUnary, take().line, "not");
  node.children.push_back(negation());
  return finish(std::move(node));
}

NodePtr ExpressionParser::comparison() {
  static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  Node node = node_at(NodeKind::kCompare, line());
  node.children.push_back(sum());
  while (true) {
    std::string op;
    for (const std::string_view candidate : kOperators) {
      if (is_operator(candidate)) op = candidate;
    }
    if (is_name("in")) op = "in";
    if (is_name("not") && next().kind == TokenKind::kName && next().text == "in") op = "not in";
    if (op.empty()) break;
    take();
    if (op == "not in") take();
    node.names.push_back(op);
    node.children.push_back(sum());
  }
  return node.names.empty() ? std::move(node.children[0]) : finish(std::move(node));
}

NodePtr ExpressionParser::sum() {
  NodePtr result = concatenation();
  while (is_operator("+") || is_operator("-")) {
    Node node = node_at(NodeKind::kBinary, line());
    node.name = take().text;
    node.children.push_back(std::move(result));
    node.children.push_back(concatenation());
    result = finish(std::move(node));
  }
  return result;
}

NodePtr ExpressionParser::concatenation() {
  Node node = node_at(NodeKind::kConcat, line());
  node.children.push_back(product());
  while (skip_operator("~")) node.children.push_back(product());
  return node.children.size() == 1 ? std::move(node.children[0]) : finish(std::move(node));
}

NodePtr ExpressionParser::product() {
  NodePtr result = unary();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    Node node = node_at(NodeKind::kBinary, line());
    node.name = take().text;
    node.children.push_back(std::move(result));
    node.children.push_back(unary());
    result = finish(std::move(node));
  }
  if (is_operator("**")) refuse_at(line(), "the operator ** is not supported");
  return result;
}

NodePtr ExpressionParser::unary(bool with_filters) {
  const Descent descent(*this);
  NodePtr result;
  if (is_operator("-") || is_operator("+")) {
    Node node = node_at(NodeKind::kUnary, line());
    node.name = take().text;
    node.children.push_back(unary(false));
    result = finish(std::move(node));
  } else {
    result = primary();
  }
  result = postfix(std::move(result));
  return with_filters ? filters(std::move(result)) : std::move(result);
}

NodePtr ExpressionParser::primary() {
  Node node = node_at(NodeKind::kConstant, line());
  switch (current().kind) {
    case TokenKind::kName:
      node.name = take().text;
      if (is_constant_name(node.name)) {
        node.constant = constant_of(node.name);
      } else {
        if (node.name == "varargs" || node.name == "kwargs") {
          refuse_at(node.line, "'" + node.name + "' of a macro is not supported");
        }
        node.kind = NodeKind::kName;
      }
      return finish(std::move(node));
    case TokenKind::kString: {
      std::string text = take().text;
      while (current().kind == TokenKind::kString) text += take().text;
      node.constant = Value(std::move(text));
      return finish(std::move(node));
    }
    case TokenKind::kInteger:
    case TokenKind::kReal:
      node.constant = number_of(take());
      return finish(std::move(node));
    case TokenKind::kOperator:
      return bracketed();
    case TokenKind::kText:
    case TokenKind::kVariableBegin:
    case TokenKind::kVariableEnd:
    case TokenKind::kBlockBegin:
    case TokenKind::kBlockEnd:
    case TokenKind::kEnd:
      break;
  }
  fail_here("an expression");
}

NodePtr ExpressionParser::bracketed() {
  if (is_operator("[")) return list();
  if (is_operator("{")) return dict();
  if (!is_operator("(")) fail_here("an expression");
  const int first_line = take().line;
  if (skip_operator(")")) return finish(node_at(NodeKind::kTuple, first_line));
  NodePtr result = tuple(true);
  expect_operator(")");
  return result;
}

NodePtr ExpressionParser::list() {
  Node node = node_at(NodeKind::kList, take().line);
  while (!is_operator("]")) {
    if (!node.children.empty()) expect_operator(",");
    if (is_operator("]")) break;
    node.children.push_back(expression());
  }
  expect_operator("]");
  return finish(std::move(node));
}

NodePtr ExpressionParser::dict() {
  Node node = node_at(NodeKind::kDict, take().line);
  while (!is_operator("}")) {
    if (!node.children.empty()) expect_operator(",");
    if (is_operator("}")) break;
    node.children.push_back(expression());
    expect_operator(":");
    node.children.push_back(expression());
  }
  expect_operator("}");
  return finish(std::move(node));
}

bool ExpressionParser::is_tuple_end(std::string_view end) const {
  return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
         is_operator(")") || (!end.empty() && is_name(end));
}

NodePtr ExpressionParser::tuple(bool with_conditional, std::string_view end) {
  const Descent descent(*this);
  Node node = node_at(NodeKind::kTuple, line());
  bool is_tuple = false;
  while (!is_tuple_end(end)) {
    node.children.push_back(expression(with_conditional));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return finish(std::move(node));
  if (node.children.empty()) fail_here("an expression");
  return std::move(node.children[0]);
}

NodePtr ExpressionParser::target(std::string_view end) {
  const Descent descent(*this);
  Node node = node_at(NodeKind::kTuple, line());
  bool is_tuple = false;
  while (!is_tuple_end(end)) {
    if (skip_operator("(")) {
      node.children.push_back(target({}));
      expect_operator(")");
    } else {
      if (is_constant_name(current().text)) fail_here("the name of a variable");
      Node name = node_at(NodeKind::kName, line());
      name.name = expect_name("the name of a variable");
      node.children.push_back(finish(std::move(name)));
    }
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (node.children.empty()) fail_here("the name of a variable");
  return is_tuple ? finish(std::move(node)) : std::move(node.children[0]);
}

}  // namespace colibri::jinja
