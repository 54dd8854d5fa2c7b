// Log probabilities of texts that each follow one document. The document's last logits score the
// first token of all of them; then one after the other runs at the positions behind the document,
// over what the one before left there, as Scorer does. Pure: whoever owns it runs the tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colibri {

class ContinuationScores {
 public:
  // At least one continuation, each of at least one token; a document of at least one.
  ContinuationScores(std::vector<std::vector<int32_t>> continuations, int64_t num_document);

  // Whether the logits after the token at `position` are wanted now.
  bool wants(int64_t position) const;
  // Logits [V]; the same again are the same again. Errors: those of log_probability.
  void take(int64_t position, std::span<const float> logits);

  // All that was to run has run: the ids to run next behind the document, which are all of a
  // continuation but its last; none when every token is scored.
  std::span<const int32_t> next();

  // [continuations][tokens]
  std::span<const std::vector<double>> logprobs() const { return logprobs_; }

 private:
  std::vector<std::vector<int32_t>> continuations_;
  int64_t num_document_;
  std::vector<std::vector<double>> logprobs_;
  bool has_begun_ = false;  // the document's last logits are here
  size_t current_ = 0;      // which runs, once next() was called
  bool is_running_ = false;
};

}  // namespace colibri
