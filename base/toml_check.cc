#include "base/toml_check.h"

#include <algorithm>
#include <string>

namespace colibri {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Knows where strings and comments begin and end in a text that toml++ reads without an error up to
// there; after its first error toml++ looks at nothing more.
class TrapSearch {
 public:
  explicit TrapSearch(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  std::optional<TomlTrap> find() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if ((c == '"' || c == '\'') && begins_string()) {
        skip_string(c);
        continue;
      }
      if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_ == text_.size()) break;
      if (static_cast<unsigned char>(text_[at_]) >= 0x80) {
        return TomlTrap{line_, "a character outside ASCII that stands in no string or comment"};
      }
      follow(text_[at_]);
      if (num_dots_ > kMaxDots) return TomlTrap{line_, "a key with many dots"};
      ++at_;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kMaxDots = 32;

  // A quote inside a number or a bare key is none that begins a string, nor is one behind the dot
  // of a number.
  bool begins_string() const {
    if (at_ == 0) return true;
    const char before = text_[at_ - 1];
    if (before == '.') return !is_value_;
    return std::string_view(" \t\n=,[{").find(before) != std::string_view::npos;
  }

  // Dots between the marks that end keys; whether a value goes on, over how many brackets.
  void follow(char c) {
    if (c == '.') ++num_dots_;
    if (std::string_view("\n=,[{").find(c) != std::string_view::npos) num_dots_ = 0;
    if (c == '=') is_value_ = true;
    if (is_value_ && (c == '[' || c == '{')) ++depth_;
    if (is_value_ && (c == ']' || c == '}')) depth_ = std::max(0, depth_ - 1);
    if (c != '\n') return;
    ++line_;
    if (depth_ == 0) is_value_ = false;
  }

  void skip_string(char quote) {
    const std::string mark(text_.substr(at_, 3) == std::string(3, quote) ? 3 : 1, quote);
    at_ += mark.size();
    while (at_ < text_.size() && text_.substr(at_, mark.size()) != mark) {
      if (text_[at_] == '\n') {
        if (mark.size() == 1) return;  // no TOML: the parser will say so
        ++line_;
      }
      at_ += text_[at_] == '\\' && quote == '"' ? 2 : 1;
    }
    at_ = std::min(at_ + mark.size(), text_.size());
    // One or two quotes before the three that end a string belong to it.
    if (mark.size() == 3 && text_.substr(at_, 1) == mark.substr(0, 1)) ++at_;
    if (mark.size() == 3 && text_.substr(at_, 1) == mark.substr(0, 1)) ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1, num_dots_ = 0, depth_ = 0;
  bool is_value_ = false;
};

}  // namespace

std::optional<TomlTrap> find_toml_trap(std::string_view text) { return TrapSearch(text).find(); }

}  // namespace colibri
