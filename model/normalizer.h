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

  // Applies all steps in order to well-formed UTF-8; the result is well formed. O(n) but for a sort
  // of each run of combining marks.
  std::string apply(std::string_view text, RegexScratch& scratch) const;

 private:
  struct Step {
    NormalizerSpec spec;
    std::unique_ptr<const Regex> pattern;  // kReplace
  };
  std::vector<Step> steps_;
};

}  // namespace colibri
