#include "model/template_lexer.h"

#include <array>

#include "base/error.h"
#include "model/printable.h"
#include "model/template_limits.h"
#include "model/template_text.h"
#include "model/tokenizer_utf8.h"

namespace colibri::jinja {
namespace {

// Longest first.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// Line ends become \n; one at the end goes.
std::string normalized(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }
  bool at(std::string_view what) const { return rest().substr(0, what.size()) == what; }

  void advance(size_t num_bytes) {
    for (const char c : rest().substr(0, num_bytes)) line_ += c == '\n';
    at_ += num_bytes;
    is_line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void skip_space() { advance(rest().size() - strip(rest(), {}, Side::kLeft).size()); }

  // Where the next tag begins at or after `from`.
  size_t find_tag(size_t from) const {
    for (size_t i = from; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return std::string_view::npos;
  }

  // The text before a tag as the tag's sign and kind leave it.
  std::string_view before_tag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, {}, Side::kRight);
    if (sign == '+' || is_variable) return text;
    const size_t line_end = text.rfind('\n');
    const size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
    if (begin == 0 && !is_line_start_) return text;
    return strip(text.substr(begin), {}, Side::kBoth).empty() ? text.substr(0, begin) : text;
  }

  char sign_at(size_t at) const {
    const char c = at < source_.size() ? source_[at] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  void read_text() {
    const size_t tag = find_tag(at_);
    if (tag == std::string_view::npos) {
      push(TokenKind::kText, std::string(rest()));
      advance(rest().size());
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    const std::string_view text = source_.substr(at_, tag - at_);
    const std::string_view kept = before_tag(text, sign, kind == '{');
    if (!kept.empty()) push(TokenKind::kText, std::string(kept));
    advance(text.size());
    const int first_line = line_;
    advance(sign ? 3 : 2);
    if (kind == '#') {
      skip_comment(first_line);
    } else if (kind == '{') {
      push(TokenKind::kVariableBegin, "");
      read_tag(TokenKind::kVariableEnd, "}}", first_line);
    } else if (is_raw_begin()) {
      read_raw(first_line);
    } else {
      push(TokenKind::kBlockBegin, "");
      read_tag(TokenKind::kBlockEnd, "%}", first_line);
    }
  }

  // Passes over the end of a block or comment and the white space it takes.
  bool skip_end(std::string_view end) {
    const std::string minus = "-" + std::string(end);
    if (at(minus)) {
      advance(minus.size());
      skip_space();
      return true;
    }
    const std::string plus = "+" + std::string(end);
    if (end != "}}" && at(plus)) {
      advance(plus.size());
      return true;
    }
    if (!at(end)) return false;
    advance(end.size());
    if (end != "}}" && at("\n")) advance(1);
    return true;
  }

  void skip_comment(int first_line) {
    while (at_ < source_.size()) {
      if (skip_end("#}")) return;
      advance(1);
    }
    fail_at(first_line, "a comment has no end '#}'");
  }

  bool is_raw_begin() const {
    const std::string_view inner = strip(rest(), {}, Side::kLeft);
    if (inner.substr(0, 3) != "raw") return false;
    const std::string_view end = strip(inner.substr(3), {}, Side::kLeft);
    return end.substr(0, 2) == "%}" || end.substr(0, 3) == "-%}";
  }

  void read_raw(int first_line) {
    skip_space();
    advance(3);
    skip_space();
    if (at("-%}")) {
      advance(3);
      skip_space();
    } else {
      advance(2);
    }
    const size_t begin = at_;
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 2)) {
      const char sign = sign_at(tag + 2);
      const std::string_view inner = strip(source_.substr(tag + (sign ? 3 : 2)), {}, Side::kLeft);
      if (inner.substr(0, 6) != "endraw") continue;
      const std::string_view end = strip(inner.substr(6), {}, Side::kLeft);
      if (end.substr(0, 2) != "%}" && end.substr(0, 3) != "-%}" && end.substr(0, 3) != "+%}") {
        continue;
      }
      const std::string_view text = source_.substr(begin, tag - begin);
      push(TokenKind::kText, std::string(before_tag(text, sign, false)));
      advance(static_cast<size_t>(end.data() - source_.data()) - at_);
      skip_end("%}");
      return;
    }
    fail_at(first_line, "'raw' has no 'endraw'");
  }

  void read_tag(TokenKind end_kind, std::string_view end, int first_line) {
    std::string open;
    while (true) {
      if (open.empty()) {
        const int line = line_;
        if (skip_end(end)) {
          tokens_.push_back({end_kind, "", line});
          return;
        }
      }
      if (at_ >= source_.size()) {
        fail_at(first_line, "a tag has no end '" + std::string(end) + "'");
      }
      const size_t before = at_;
      skip_space();
      if (at_ == before) read_token(open);
    }
  }

  void read_token(std::string& open) {
    const char c = source_[at_];
    if (is_digit(c)) {
      read_number();
    } else if (is_name_start(c)) {
      size_t size = 1;
      while (at_ + size < source_.size() && is_name_part(source_[at_ + size])) ++size;
      push(TokenKind::kName, std::string(rest().substr(0, size)));
      advance(size);
    } else if (c == '\'' || c == '"') {
      read_string(c);
    } else {
      read_operator(open);
    }
  }

  size_t digits(size_t from) const {
    size_t i = from;
    while (i < source_.size() &&
           (is_digit(source_[i]) || (source_[i] == '_' && i > from && i + 1 < source_.size() &&
                                     is_digit(source_[i + 1])))) {
      ++i;
    }
    return i;
  }

  void read_number() {
    if (at("0x") || at("0X") || at("0b") || at("0B") || at("0o") || at("0O")) {
      refuse_at(line_, "numbers are decimal here, got '" + printable(rest().substr(0, 8)) + "'");
    }
    size_t end = digits(at_);
    bool is_real = false;
    const bool is_index = at_ > 0 && source_[at_ - 1] == '.';  // x.0.1 is two of them
    if (!is_index && end + 1 < source_.size() && source_[end] == '.' &&
        is_digit(source_[end + 1])) {
      end = digits(end + 1);
      is_real = true;
    }
    if (!is_index && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t begin = end + 1 + (sign_at(end + 1) ? 1 : 0);
      if (begin < source_.size() && is_digit(source_[begin])) {
        end = digits(begin);
        is_real = true;
      }
    }
    std::string text;
    for (const char c : source_.substr(at_, end - at_)) {
      if (c != '_') text += c;
    }
    if (!is_real && text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of('0') != std::string::npos) {
      fail_at(line_, "an integer does not begin with 0, got '" + printable(text) + "'");
    }
    push(is_real ? TokenKind::kReal : TokenKind::kInteger, text);
    advance(end - at_);
  }

  void read_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(line_, "a string has no end");
    push(TokenKind::kString, unescape(source_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1 - at_);
  }

  void read_operator(std::string& open) {
    for (const std::string_view text : kOperators) {
      if (!at(text)) continue;
      if (text == "(" || text == "[" || text == "{") {
        open += text == "(" ? ')' : text == "[" ? ']' : '}';
      } else if (text == ")" || text == "]" || text == "}") {
        if (open.empty() || open.back() != text[0]) {
          fail_at(line_, "unexpected '" + std::string(text) + "'" +
                             (open.empty() ? "" : ", want '" + std::string(1, open.back()) + "'"));
        }
        open.pop_back();
      }
      push(TokenKind::kOperator, std::string(text));
      advance(text.size());
      return;
    }
    const size_t size = decode_utf8(source_, at_).num_bytes;
    fail_at(line_, "unexpected character '" + printable(rest().substr(0, size)) + "' in a tag");
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;
  std::vector<Token> tokens_;
};

// The character of `digits` (base 8 or 16).
char32_t escaped_code(std::string_view digits, int base, int line) {
  size_t used = 0;
  unsigned long code = 0x110000;
  try {
    code = std::stoul(std::string(digits), &used, base);
  } catch (const std::exception&) {
  }
  if (used != digits.size() || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
    fail_at(line, "no character: escape '" + printable(digits) + "' in a string");
  }
  return static_cast<char32_t>(code);
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

std::string unescape(std::string_view literal, int line) {
  static constexpr std::string_view kFrom = "\\'\"abfnrtv";
  static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  std::string result;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      result += literal[i];
      continue;
    }
    const char c = literal[++i];
    if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      result += kTo[simple];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string_view digits = literal.substr(i + 1, size);
      if (digits.size() < size ||
          digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
        fail_at(line, "escape '\\" + std::string(1, c) + "' wants " + std::to_string(size) +
                          " hexadecimal digits");
      }
      append_utf8(result, escaped_code(digits, 16, line));
      i += size;
    } else if (is_octal(c)) {
      size_t size = 1;
      while (size < 3 && i + size < literal.size() && is_octal(literal[i + size])) ++size;
      append_utf8(result, escaped_code(literal.substr(i, size), 8, line));
      i += size - 1;
    } else if (c == 'N') {
      refuse_at(line, "characters by name ('\\N') are not supported; write '\\u' and its digits");
    } else if (c != '\n') {
      result += '\\';
      result += c;
    }
  }
  return result;
}

std::vector<Token> tokenize(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    fail(ErrorKind::kInput, "chat template: ", source.size(), " bytes, want at most ",
         kMaxTemplateBytes);
  }
  if (!is_valid_utf8(source)) fail(ErrorKind::kInput, "chat template: not UTF-8");
  const std::string text = normalized(source);
  return Lexer(text).run();
}

void fail_at(int line, const std::string& message) {
  fail(ErrorKind::kInput, "chat template, line ", line, ": ", message);
}

void refuse_at(int line, const std::string& message) {
  fail(ErrorKind::kUnsupported, "chat template, line ", line, ": ", message);
}

}  // namespace colibri::jinja
