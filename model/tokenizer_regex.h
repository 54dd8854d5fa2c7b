// Regular expressions of tokenizer.json. They are written for Oniguruma (Ruby syntax); this class
// runs them on PCRE2 with the same meaning, or refuses them by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// Where a pattern stands in a text, in bytes.
struct ByteRange {
  uint32_t begin = 0, end = 0;
};

// Memory that one thread needs while it matches; taken on first use, kept between calls.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// A compiled pattern. Immutable: several threads may match with it, each with its own scratch. The
// machine code (JIT) is made by the first match, so a pattern that is never used costs little.
//
// Character properties are those of the PCRE2 library's Unicode version; characters assigned later
// count as unassigned.
class Regex {
 public:
  // Fails with kUnsupported naming `where` for a construct whose meaning would differ, and with
  // kInput for a pattern that is wrong.
  static Regex from_oniguruma(std::string_view pattern, std::string_view where);
  // Matches `text` itself. Fails with kUnsupported naming `where` if it is empty.
  static Regex literal(std::string_view text, std::string_view where);
  // Already PCRE2 syntax; for patterns of our own.
  static Regex from_pcre(std::string_view pattern, std::string_view where);

  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Fills `matches` with all matches in order, without overlap; old contents are lost. `text` is
  // well-formed UTF-8 of less than 2^31 bytes. An empty match directly behind another match is left
  // out. Fails with kInput when the match needs more steps than the limit: never a silent miss.
  void find_all(std::string_view text, RegexScratch& scratch,
                std::vector<ByteRange>& matches) const;

 private:
  struct State;
  explicit Regex(std::unique_ptr<State> state);
  bool find(std::string_view text, size_t start, RegexScratch& scratch, ByteRange& match) const;
  std::unique_ptr<State> state_;
};

// The pattern in PCRE2 syntax. See Regex::from_oniguruma for the errors.
std::string translate_oniguruma(std::string_view pattern, std::string_view where);

// Word characters by Unicode's definition: the inside of a PCRE2 class.
inline constexpr std::string_view kWordClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d})";

}  // namespace colibri
