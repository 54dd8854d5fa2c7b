// Oniguruma (Ruby syntax) to PCRE2: the constructs whose meaning is the same pass, those with
// another spelling are rewritten, the rest is refused.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "model/tokenizer_regex.h"

namespace colibri {
namespace {

// Oniguruma's \w: without the joiners, but with the raised digits and fractions of Latin-1.
constexpr std::string_view kOnigurumaWord =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      if (pattern_[at_] == '\\') {
        escape();
      } else if (in_class_) {
        class_char();
      } else {
        plain_char();
      }
    }
    if (in_class_) refuse("a character class without its ]");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorKind::kUnsupported, where_, ": ", what, " at byte ", at_,
         " of the regular expression ", pattern_, " is not supported");
  }
  char peek(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void copy(size_t num_bytes) {
    out_ += pattern_.substr(at_, num_bytes);
    at_ += num_bytes;
  }
  void write(std::string_view text, size_t num_bytes_read) {
    out_ += text;
    at_ += num_bytes_read;
  }

  // \s, \w and their kin mean Unicode in both; the sets differ, so they are spelled out.
  void escape() {
    const std::string words(kOnigurumaWord);
    const std::string in = in_class_ ? "" : "[", close = in_class_ ? "" : "]";
    switch (peek(1)) {
      case 's':
        return write(R"(\p{White_Space})", 2);
      case 'S':
        return write(R"(\P{White_Space})", 2);
      case 'd':
        return write(R"(\p{Nd})", 2);
      case 'D':
        return write(R"(\P{Nd})", 2);
      case 'w':
        return write(in + words + close, 2);
      case 'h':
        return write(in + "0-9A-Fa-f" + close, 2);
      case 'v':
        return write(R"(\x0b)", 2);
      case 'u':
        return escape_u();
      case 'x':
        return escape_x();
      case 'p':
      case 'P':
        return escape_property();
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        return copy(2);
      default:
        return escape_by_place(words);
    }
  }

  void escape_by_place(const std::string& words) {
    const char c = peek(1);
    if (c == '\0') refuse("a \\ at the end");
    if (in_class_) {
      if (is_letter(c) || is_digit(c)) refuse(std::string("\\") + c + " in a character class");
      return copy(2);
    }
    const std::string word = "[" + words + "]";
    if (c == 'W') return write("[^" + words + "]", 2);
    if (c == 'H') return write("[^0-9A-Fa-f]", 2);
    if (c == 'b') {
      return write("(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))", 2);
    }
    if (c == 'B') {
      return write("(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))", 2);
    }
    const bool is_known = c == 'A' || c == 'z' || c == 'Z' || (c >= '1' && c <= '9');
    if ((is_letter(c) || is_digit(c)) && !is_known) refuse(std::string("\\") + c);
    copy(2);
  }

  void escape_u() {
    for (size_t i = 2; i < 6; ++i) {
      if (!is_hex(peek(i))) refuse("\\u without four hexadecimal digits");
    }
    write("\\x{" + std::string(pattern_.substr(at_ + 2, 4)) + "}", 6);
  }

  void escape_x() {
    if (peek(2) == '{') return copy(3);
    size_t num_digits = 0;
    while (num_digits < 2 && is_hex(peek(2 + num_digits))) ++num_digits;
    if (num_digits == 0) refuse("\\x without hexadecimal digits");
    const std::string digits(pattern_.substr(at_ + 2, num_digits));
    if (std::strtoul(digits.c_str(), nullptr, 16) >= 0x80) refuse("a raw byte \\x80 or above");
    write("\\x{" + digits + "}", 2 + num_digits);
  }

  void escape_property() {
    if (peek(2) != '{') refuse("\\p without {");
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) refuse("\\p{ without }");
    copy(end + 1 - at_);
  }

  void class_char() {
    const char c = peek(0);
    if (c == '[') refuse("a character class inside a character class");
    if (c == '&' && peek(1) == '&') refuse("&& in a character class");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void plain_char() {
    switch (peek(0)) {
      case '[':
        in_class_ = true;
        copy(peek(1) == '^' ? 2 : 1);
        if (peek(0) == ']') refuse("] as first member of a character class");
        return;
      case '(':
        return group();
      case '{':
        return interval();
      default:
        return copy(1);
    }
  }

  void group() {
    if (peek(1) == '*') refuse("(*");
    if (peek(1) != '?') return copy(1);
    for (const std::string_view head :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"}) {
      if (pattern_.substr(at_).starts_with(head)) return copy(head.size());
    }
    if (pattern_.substr(at_).starts_with("(?m:")) return write("(?s:", 4);
    if (at_ == 0 && pattern_.starts_with("(?i)")) return copy(4);
    refuse("this kind of group");
  }

  // {n}, {n,} and {n,m} are repeats in both; {,n} only in Oniguruma; anything else is text.
  void interval() {
    if (peek(1) == ',') refuse("{,n}");
    size_t length = 1;
    while (is_digit(peek(length))) ++length;
    if (length == 1) return write("\\{", 1);
    if (peek(length) == ',') ++length;
    while (is_digit(peek(length))) ++length;
    if (peek(length) != '}') return write("\\{", 1);
    copy(length + 1);
    if (peek(0) == '+' || peek(0) == '?') refuse("+ or ? behind an interval");
  }

  std::string_view pattern_, where_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string translate_oniguruma(std::string_view pattern, std::string_view where) {
  return Translator(pattern, where).run();
}

}  // namespace colibri
