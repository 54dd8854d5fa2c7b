#include "base/toml_check.h"

#include <algorithm>
#include <string>

namespace colibri {
namespace {

// Counts dots outside strings and comments, between the marks that end keys.
class DottedKeyCheck {
 public:
  explicit DottedKeyCheck(std::string_view text) : text_(text) {}

  // The first line with a key of more parts than any has; 0 if there is none.
  int find() {
    int dots = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_ == text_.size()) break;
      if (text_[at_] == '\n') ++line_;
      if (std::string_view("\n=,[{").find(text_[at_]) != std::string_view::npos) dots = 0;
      if (text_[at_] == '.' && ++dots > kMaxDots) return line_;
      ++at_;
    }
    return 0;
  }

 private:
  static constexpr int kMaxDots = 32;

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
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

int line_of_long_toml_key(std::string_view text) { return DottedKeyCheck(text).find(); }

}  // namespace colibri
