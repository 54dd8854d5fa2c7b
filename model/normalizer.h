// The normalizer of tokenizer.json: rewrites text before it is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer_regex.h"
#include "model/tokenizer_spec.h"

namespace colibri {

// Immutable, usable from several threads.
class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerSpec>& steps);

  bool is_identity() const { return steps_.empty(); }

  // Applies all steps in order to well-formed UTF-8; the result is well formed. `keeps_start`
  // becomes false when the beginning of `text` was cut off. O(n) but for a sort of each run of
  // combining marks.
  std::string apply(std::string_view text, RegexScratch& scratch, bool& keeps_start) const;

 private:
  struct Step {
    NormalizerSpec spec;
    std::unique_ptr<const Regex> pattern;  // kReplace
  };
  static std::string apply_step(const Step& step, std::string text, RegexScratch& scratch,
                                bool& keeps_start);
  std::vector<Step> steps_;
};

// NFC and its kin follow Unicode 9, as the tokenizers package does: characters that took a
// combining class or a decomposition later (the list ends with Unicode 14) have none.
bool is_newer_than_unicode_9(char32_t code_point);

}  // namespace colibri
