#include "model/tokenizer_json_scan.h"

#include <charconv>
#include <string>

#include "base/error.h"
#include "model/tokenizer_utf8.h"

namespace colibri::tokenizer_json {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Scanner {
 public:
  Scanner(std::string_view text, std::string_view file, ScanEvents& events)
      : text_(text), file_(file), events_(events) {}

  void run() {
    skip_blanks();
    value();
    skip_blanks();
    if (at_ != text_.size()) fail_at("want the end of the file");
  }

 private:
  [[noreturn]] void fail_at(std::string_view want) const {
    fail(ErrorKind::kInput, file_, ": not JSON at byte ", at_, ": ", want);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  void expect(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) fail_at("want a value");
    at_ += word.size();
  }

  void value() {
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return events_.string(quoted());
      case 't':
        expect("true");
        return events_.boolean(true);
      case 'f':
        expect("false");
        return events_.boolean(false);
      case 'n':
        expect("null");
        return events_.null();
      default:
        return number();
    }
  }

  // After an element: true if another follows, false at `close`.
  bool next_element(char close, std::string_view want) {
    skip_blanks();
    const char c = peek();
    if (c != ',' && c != close) fail_at(want);
    ++at_;
    skip_blanks();
    return c == ',';
  }

  void object() {
    events_.start_object();
    ++at_;
    skip_blanks();
    if (peek() == '}') {
      ++at_;
      return events_.end_object();
    }
    do {
      if (peek() != '"') fail_at("want a name in quotes");
      events_.key(quoted());
      skip_blanks();
      if (peek() != ':') fail_at("want \":\"");
      ++at_;
      skip_blanks();
      value();
    } while (next_element('}', "want \",\" or \"}\""));
    events_.end_object();
  }

  void array() {
    events_.start_array();
    ++at_;
    skip_blanks();
    if (peek() == ']') {
      ++at_;
      return events_.end_array();
    }
    do {
      value();
    } while (next_element(']', "want \",\" or \"]\""));
    events_.end_array();
  }

  std::string_view quoted() {
    const size_t begin = ++at_;
    unsigned char all = 0;
    while (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"' || c == '\\' || c < 0x20) break;
      all |= c;
      ++at_;
    }
    std::string_view out = text_.substr(begin, at_ - begin);
    if (peek() == '\\') out = escaped(out);
    if (at_ >= text_.size() || text_[at_] != '"') fail_at("want the end of a string");
    ++at_;
    if ((all >= 0x80 || out.data() == buffer_.data()) && !is_valid_utf8(out)) {
      fail_at("the string is not UTF-8");
    }
    return out;
  }

  std::string_view escaped(std::string_view plain) {
    buffer_.assign(plain);
    while (at_ < text_.size() && text_[at_] != '"' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      const char c = text_[at_++];
      if (c == '\\') {
        escape();
      } else {
        buffer_ += c;
      }
    }
    return buffer_;
  }

  void escape() {
    const char c = peek();
    ++at_;
    constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    if (const size_t found = kNames.find(c); found != std::string_view::npos) {
      buffer_ += kValues[found];
      return;
    }
    if (c != 'u') fail_at("an unknown escape");
    char32_t code = hex4();
    if (code >= 0xd800 && code < 0xdc00) {
      if (!text_.substr(at_).starts_with("\\u"))
        fail_at("want the second half of a surrogate pair");
      at_ += 2;
      const char32_t low = hex4();
      if (low < 0xdc00 || low > 0xdfff) fail_at("want the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      fail_at("half of a surrogate pair");
    }
    append_utf8(buffer_, code);
  }

  char32_t hex4() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || read.ptr != digits.data() + 4)
      fail_at("want four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void skip_digits() {
    if (!is_digit(peek())) fail_at("want a value");
    while (is_digit(peek())) ++at_;
  }

  void number() {
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      skip_digits();
    }
    bool is_integer = true;
    if (peek() == '.') {
      is_integer = false;
      ++at_;
      skip_digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      is_integer = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      skip_digits();
    }
    const char *first = text_.data() + begin, *last = text_.data() + at_;
    int64_t whole = 0;
    if (is_integer && std::from_chars(first, last, whole).ec == std::errc()) {
      return events_.integer(whole);
    }
    double real = 0;
    if (std::from_chars(first, last, real).ec != std::errc()) fail_at("a number out of range");
    events_.real(real);
  }

  std::string_view text_, file_;
  ScanEvents& events_;
  std::string buffer_;
  size_t at_ = 0;
};

}  // namespace

void scan_json(std::string_view text, std::string_view file, ScanEvents& events) {
  Scanner(text, file, events).run();
}

}  // namespace colibri::tokenizer_json
