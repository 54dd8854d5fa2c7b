// A template cut into text, tags and what stands in the tags, with Jinja's rules for white space
// under trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::jinja {

enum class TokenKind : uint8_t {
  kText,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kReal,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // strings unescaped, numbers without '_'
  int line = 1;
};

// The tokens, a kEnd last. Fails with kInput naming the line, for what is no template, and for one
// of more than kMaxTemplateBytes.
std::vector<Token> tokenize(std::string_view source);

// The value of a string literal without its quotes.
std::string unescape(std::string_view literal, int line);

// "chat template, line 3: " before the parts. kInput for what is wrong.
[[noreturn]] void fail_at(int line, const std::string& message);
// The same with kUnsupported: valid Jinja that is not supported here.
[[noreturn]] void refuse_at(int line, const std::string& message);

}  // namespace colibri::jinja
