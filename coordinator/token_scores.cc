#include "coordinator/token_scores.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace colibri {
namespace {

struct Normaliser {
  double top = 0, log_sum = 0;
  double logprob(float logit) const { return static_cast<double>(logit) - top - log_sum; }
};

Normaliser normaliser_of(std::span<const float> logits) {
  const double top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return {top, std::log(sum)};
}

double checked_logprob(const Normaliser& normaliser, std::span<const float> logits, int32_t id) {
  const double result = normaliser.logprob(logits[static_cast<size_t>(id)]);
  if (std::isfinite(result)) return result;
  fail(ErrorKind::kInput, "the logits are not finite, so token ", id,
       " has no probability; the checkpoint's weights are damaged or not meant for this "
       "configuration");
}

std::vector<int32_t> most_likely(std::span<const float> logits, size_t count) {
  std::vector<int32_t> best;
  const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  for (int32_t id = 0; count > 0 && static_cast<size_t>(id) < logits.size(); ++id) {
    if (best.size() == count && !(logit(id) > logit(best.back()))) continue;
    if (best.size() == count) best.pop_back();
    const auto after = std::find_if(best.begin(), best.end(),
                                    [&](int32_t other) { return logit(other) < logit(id); });
    best.insert(after, id);
  }
  return best;
}

}  // namespace

double log_probability(std::span<const float> logits, int32_t id) {
  return checked_logprob(normaliser_of(logits), logits, id);
}

std::vector<double> log_probabilities(std::span<const float> logits, std::span<const int32_t> ids) {
  const Normaliser normaliser = normaliser_of(logits);
  std::vector<double> logprobs;
  for (const int32_t id : ids) logprobs.push_back(checked_logprob(normaliser, logits, id));
  return logprobs;
}

TokenScore score_token(std::span<const float> logits, int32_t id, int num_top) {
  const Normaliser normaliser = normaliser_of(logits);
  TokenScore score{.id = id, .logprob = checked_logprob(normaliser, logits, id)};
  for (const int32_t other : most_likely(logits, static_cast<size_t>(num_top))) {
    score.top.emplace_back(other, normaliser.logprob(logits[static_cast<size_t>(other)]));
  }
  return score;
}

ClosedSet closed_set(std::span<const double> logprobs) {
  const auto best = std::max_element(logprobs.begin(), logprobs.end());
  ClosedSet set;
  set.best = static_cast<size_t>(best - logprobs.begin());
  double total = 0;
  for (const double logprob : logprobs) {
    set.probabilities.push_back(std::exp(logprob - *best));
    total += set.probabilities.back();
  }
  for (double& p : set.probabilities) {
    p /= total;
    if (p > 0) set.entropy -= p * std::log(p);
  }
  if (logprobs.size() > 1) {
    set.normalised_entropy = set.entropy / std::log(static_cast<double>(logprobs.size()));
  }
  return set;
}

}  // namespace colibri
