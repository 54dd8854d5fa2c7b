#include "coordinator/continuation_scores.h"

#include <utility>

#include "coordinator/token_scores.h"

namespace colibri {

ContinuationScores::ContinuationScores(std::vector<std::vector<int32_t>> continuations,
                                       int64_t num_document)
    : continuations_(std::move(continuations)), num_document_(num_document) {
  for (const auto& ids : continuations_) logprobs_.emplace_back(ids.size());
}

bool ContinuationScores::wants(int64_t position) const {
  return position >= num_document_ || (position + 1 == num_document_ && !has_begun_);
}

void ContinuationScores::take(int64_t position, std::span<const float> logits) {
  if (position >= num_document_) {
    const auto token = static_cast<size_t>(position - num_document_) + 1;
    logprobs_[current_][token] = log_probability(logits, continuations_[current_][token]);
    return;
  }
  std::vector<int32_t> firsts;
  for (const auto& ids : continuations_) firsts.push_back(ids.front());
  const std::vector<double> scores = log_probabilities(logits, firsts);
  for (size_t i = 0; i < scores.size(); ++i) logprobs_[i][0] = scores[i];
  has_begun_ = true;
}

std::span<const int32_t> ContinuationScores::next() {
  if (std::exchange(is_running_, true)) ++current_;
  while (current_ < continuations_.size() && continuations_[current_].size() == 1) ++current_;
  if (current_ == continuations_.size()) return {};
  return std::span(continuations_[current_]).first(continuations_[current_].size() - 1);
}

}  // namespace colibri
