// The pre-tokenizer of tokenizer.json: cuts text into the pieces that are merged one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer_regex.h"
#include "model/tokenizer_spec.h"

namespace colibri {

// A text and its pieces: ascending ranges of it, none empty; what lies between them was removed.
struct Pieces {
  std::string text;
  std::vector<ByteRange> ranges;
  bool starts_input = false;  // text is the beginning of what the caller passed to encode
};

// Immutable, usable from several threads.
class PreTokenizer {
 public:
  explicit PreTokenizer(const std::vector<PreTokenizerSpec>& steps);

  // Applies all steps in order. `pieces` comes with its text (well-formed UTF-8) and one range over
  // all of it.
  void apply(Pieces& pieces, RegexScratch& scratch) const;

 private:
  struct Step {
    PreTokenizerSpec spec;
    std::unique_ptr<const Regex> pattern;
  };
  static void apply_step(const Step& step, Pieces& pieces, RegexScratch& scratch);
  std::vector<Step> steps_;
};

// Cuts [begin, end) at the ascending, disjoint `matches` (positions relative to begin) as
// `behavior` says and appends the pieces that are not empty. `invert` swaps matches and what lies
// between.
void split_range(ByteRange range, const std::vector<ByteRange>& matches, SplitBehavior behavior,
                 bool invert, std::vector<ByteRange>& out);

// The byte-level alphabet: every byte as one printable character.
char32_t byte_level_char(unsigned char byte);
// The byte behind a character of that alphabet, or -1.
int byte_of_level_char(char32_t code_point);

}  // namespace colibri
