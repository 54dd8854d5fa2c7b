#include "model/template_parser.h"

#include <algorithm>
#include <initializer_list>

#include "model/printable.h"
#include "model/template_limits.h"

namespace colibri::jinja {

Token ParserBase::take() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ParserBase::is_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool ParserBase::is_name(std::string_view text) const {
  return current().kind == TokenKind::kName && current().text == text;
}

bool ParserBase::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool ParserBase::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void ParserBase::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_here("'" + std::string(text) + "'");
}

void ParserBase::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) fail_here(what);
  take();
}

std::string ParserBase::expect_name(std::string_view what) {
  if (current().kind != TokenKind::kName) fail_here(what);
  return take().text;
}

void ParserBase::fail_here(std::string_view wanted) const {
  const auto came = [this]() -> std::string {
    switch (current().kind) {
      case TokenKind::kText:
      case TokenKind::kVariableBegin:
      case TokenKind::kBlockBegin:
        return "text";
      case TokenKind::kVariableEnd:
        return "'}}'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kName:
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kReal:
      case TokenKind::kOperator:
        return "'" + printable(current().text, 40) + "'";
      case TokenKind::kEnd:
        break;
    }
    return "the end of the template";
  };
  fail_at(line(), "got " + came() + ", want " + std::string(wanted));
}

NodePtr ParserBase::finish(Node node) const {
  for (const NodePtr& child : node.children) {
    if (child) node.depth = std::max(node.depth, child->depth + 1);
  }
  if (node.depth > kMaxNodeDepth) {
    fail_at(node.line, "expressions and tags nest deeper than " + std::to_string(kMaxNodeDepth));
  }
  return std::make_unique<const Node>(std::move(node));
}

ParserBase::Descent::Descent(ParserBase& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxParseDepth) {
    fail_at(parser_.line(), "brackets and tags nest deeper than " + std::to_string(kMaxParseDepth));
  }
}

namespace {

class TemplateParser : public ExpressionParser {
 public:
  explicit TemplateParser(std::string_view source) : ExpressionParser(tokenize(source)) {}

  NodePtr run() {
    NodePtr result = body({});
    if (current().kind != TokenKind::kEnd) fail_here("no such tag here");
    return result;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  Node here(NodeKind kind) const {
    Node node;
    node.kind = kind;
    node.line = line();
    return node;
  }

  // Statements up to a tag that begins with one of `ends`, which is not taken but for its "{%".
  NodePtr body(Ends ends) {
    const Descent descent(*this);
    Node node = here(NodeKind::kBody);
    while (current().kind != TokenKind::kEnd) {
      if (current().kind == TokenKind::kText) {
        Node text = here(NodeKind::kText);
        text.constant = Value(take().text);
        node.children.push_back(finish(std::move(text)));
      } else if (current().kind == TokenKind::kVariableBegin) {
        take();
        Node output = here(NodeKind::kOutput);
        output.children.push_back(tuple(true));
        expect(TokenKind::kVariableEnd, "'}}'");
        node.children.push_back(finish(std::move(output)));
      } else {
        const int first_line = line();
        expect(TokenKind::kBlockBegin, "a tag");
        for (const std::string_view end : ends) {
          if (is_name(end)) return finish(std::move(node));
        }
        node.children.push_back(statement(first_line));
        expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() != 0) fail_here("'" + std::string(*(ends.end() - 1)) + "'");
    return finish(std::move(node));
  }

  NodePtr statement(int first_line) {
    const std::string name = expect_name("the name of a tag");
    if (name == "if") return if_statement();
    if (name == "for") return for_statement();
    if (name == "set") return set_statement();
    if (name == "macro") return macro();
    if (name == "generation") return generation();
    if (name == "break" || name == "continue") {
      if (loop_depth_ == 0) fail_at(first_line, "'" + name + "' outside of a loop");
      return finish(here(name == "break" ? NodeKind::kBreak : NodeKind::kContinue));
    }
    if (name.substr(0, 3) == "end" || name == "else" || name == "elif") {
      fail_at(first_line, "'" + printable(name) + "' without the tag it belongs to");
    }
    refuse_at(first_line, "the tag '" + printable(name) +
                              "' is not supported; there are if, for, set, macro, generation, "
                              "break, continue, raw");
  }

  NodePtr if_statement() {
    Node node = here(NodeKind::kIf);
    while (true) {
      node.children.push_back(tuple(false));
      expect(TokenKind::kBlockEnd, "'%}'");
      node.children.push_back(body({"elif", "else", "endif"}));
      if (!skip_name("elif")) break;
    }
    if (skip_name("else")) {
      expect(TokenKind::kBlockEnd, "'%}'");
      node.children.push_back(body({"endif"}));
    }
    take();
    return finish(std::move(node));
  }

  NodePtr for_statement() {
    Node node = here(NodeKind::kFor);
    node.children.push_back(target("in"));
    if (!skip_name("in")) fail_here("'in'");
    node.children.push_back(tuple(false, "recursive"));
    node.children.push_back(skip_name("if") ? expression() : nullptr);
    if (is_name("recursive")) refuse_at(line(), "'recursive' loops are not supported");
    expect(TokenKind::kBlockEnd, "'%}'");
    ++loop_depth_;
    node.children.push_back(body({"else", "endfor"}));
    --loop_depth_;
    NodePtr otherwise;
    if (skip_name("else")) {
      expect(TokenKind::kBlockEnd, "'%}'");
      otherwise = body({"endfor"});
    }
    node.children.push_back(std::move(otherwise));
    take();
    return finish(std::move(node));
  }

  NodePtr set_statement() {
    Node node = here(NodeKind::kSet);
    if (next().kind == TokenKind::kOperator && next().text == ".") return set_attribute();
    node.children.push_back(target({}));
    if (skip_operator("=")) {
      node.children.push_back(tuple(true));
      return finish(std::move(node));
    }
    if (is_operator("|")) refuse_at(line(), "a filter on a block of set is not supported");
    expect(TokenKind::kBlockEnd, "'=' or '%}'");
    node.kind = NodeKind::kSetBlock;
    node.children.push_back(body({"endset"}));
    take();
    return finish(std::move(node));
  }

  NodePtr set_attribute() {
    Node node = here(NodeKind::kSetAttribute);
    node.names.push_back(expect_name("the name of a namespace"));
    expect_operator(".");
    node.names.push_back(expect_name("the name of an attribute"));
    if (current().kind == TokenKind::kBlockEnd) {
      refuse_at(line(), "a block of set for an attribute is not supported");
    }
    expect_operator("=");
    node.children.push_back(tuple(true));
    return finish(std::move(node));
  }

  NodePtr macro() {
    Node node = here(NodeKind::kMacro);
    node.name = expect_name("the name of a macro");
    expect_operator("(");
    while (!is_operator(")")) {
      if (!node.names.empty()) expect_operator(",");
      node.names.push_back(expect_name("the name of a parameter"));
      if (skip_operator("=")) {
        node.children.push_back(expression());
      } else {
        if (!node.children.empty() && node.children.back()) {
          fail_at(line(), "a parameter without default follows one with a default");
        }
        node.children.push_back(nullptr);
      }
    }
    expect_operator(")");
    expect(TokenKind::kBlockEnd, "'%}'");
    node.children.push_back(outside_of_loops("endmacro"));
    return finish(std::move(node));
  }

  NodePtr generation() {
    Node node = here(NodeKind::kGeneration);
    expect(TokenKind::kBlockEnd, "'%}'");
    node.children.push_back(outside_of_loops("endgeneration"));
    return finish(std::move(node));
  }

  NodePtr outside_of_loops(std::string_view end) {
    const int loop_depth = loop_depth_;
    loop_depth_ = 0;
    NodePtr result = body({end});
    loop_depth_ = loop_depth;
    take();
    return result;
  }

  int loop_depth_ = 0;
};

}  // namespace

NodePtr parse_template(std::string_view source) { return TemplateParser(source).run(); }

}  // namespace colibri::jinja
