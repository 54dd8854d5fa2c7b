// Tokens to a tree. What this interpreter does not have is refused here, by name, with what it has.
#pragma once

#include <string_view>
#include <vector>

#include "model/template_lexer.h"
#include "model/template_nodes.h"

namespace colibri::jinja {

// Fails with kInput naming the line, for what is no template; with kUnsupported for tags, filters,
// tests, methods, functions and arguments that are not supported; with kInput beyond kMaxParseDepth
// and kMaxNodeDepth.
NodePtr parse_template(std::string_view source);

// For template_parse*.cc only: a node without children, and a number's value.
Node node_at(NodeKind kind, int line, std::string name = {});
Value number_of(const Token& token);

// One token ahead, and what is common to statements and expressions. For template_parse*.cc only.
class ParserBase {
 protected:
  explicit ParserBase(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  Token take();
  bool is_operator(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect(TokenKind kind, std::string_view what);
  std::string expect_name(std::string_view what);
  [[noreturn]] void fail_here(std::string_view wanted) const;
  // Checks the height of the tree.
  NodePtr finish(Node node) const;

  // Counts how deep the parser is in itself.
  class Descent {
   public:
    Descent(ParserBase& parser);
    ~Descent() { --parser_.depth_; }

   private:
    ParserBase& parser_;
  };

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

class ExpressionParser : public ParserBase {
 protected:
  using ParserBase::ParserBase;

  NodePtr expression(bool with_conditional = true);
  // Expressions with commas between are a tuple. A name at the end of it, if any, is `end`.
  NodePtr tuple(bool with_conditional, std::string_view end = {});
  NodePtr target(std::string_view end);

 private:
  NodePtr conditional();
  NodePtr disjunction();
  NodePtr conjunction();
  NodePtr negation();
  NodePtr comparison();
  NodePtr sum();
  NodePtr concatenation();
  NodePtr product();
  NodePtr unary(bool with_filters = true);
  NodePtr primary();
  NodePtr bracketed();
  NodePtr list();
  NodePtr dict();
  NodePtr postfix(NodePtr node);
  NodePtr filters(NodePtr node);
  NodePtr filter(NodePtr input);
  NodePtr test(NodePtr input);
  NodePtr attribute(NodePtr object);
  NodePtr subscript(NodePtr object);
  NodePtr call(NodePtr callee);
  void arguments(Node& node);
  bool is_tuple_end(std::string_view end) const;
};

}  // namespace colibri::jinja
