#include "coordinator/logit_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "coordinator/sampler.h"

namespace colibri {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// Only barred tokens are the lowest: they must come after all others.
float rounded(double logit) {
  constexpr double kMost = static_cast<double>(std::numeric_limits<float>::max()) / 2;
  return static_cast<float>(std::clamp(logit, -kMost, kMost));
}

}  // namespace

bool LogitRuleParams::has_effect() const {
  return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1 ||
         !biases.empty() || min_tokens > 0;
}

LogitRules::LogitRules(LogitRuleParams params, std::span<const int32_t> prompt,
                       std::span<const int32_t> end_ids)
    : params_(std::move(params)), end_ids_(end_ids.begin(), end_ids.end()) {
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
  if (params_.repetition_penalty == 1) return;
  for (const int32_t id : prompt) seen_[id].is_in_prompt = true;
}

void LogitRules::push(int32_t id) {
  ++num_generated_;
  ++seen_[id].num_generated;
}

double LogitRules::changed(double logit, const Seen& seen) const {
  const double repetition = params_.repetition_penalty;
  if (repetition != 1) logit = logit > 0 ? logit / repetition : logit * repetition;
  logit -= params_.frequency_penalty * static_cast<double>(seen.num_generated);
  return seen.num_generated > 0 ? logit - params_.presence_penalty : logit;
}

int64_t LogitRules::apply(std::span<float> logits) const {
  const auto is_token = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < logits.size();
  };
  const auto bias_of = [&](int32_t id) {
    const auto bias = params_.biases.find(id);
    return bias == params_.biases.end() ? 0.0 : static_cast<double>(bias->second);
  };
  const auto change = [&](int32_t id, const Seen* seen) {
    if (!is_token(id)) return;
    float& logit = logits[static_cast<size_t>(id)];
    if (!std::isfinite(logit)) return;
    const double biased = static_cast<double>(logit) + bias_of(id);
    logit = rounded(seen != nullptr ? changed(biased, *seen) : biased);
  };
  for (const auto& [id, seen] : seen_) change(id, &seen);
  for (const auto& [id, bias] : params_.biases) {
    if (!seen_.contains(id)) change(id, nullptr);
  }
  if (num_generated_ >= params_.min_tokens) return 0;
  int64_t num_barred = 0;
  for (const int32_t id : end_ids_) {
    if (!is_token(id) || !std::isfinite(logits[static_cast<size_t>(id)])) continue;
    logits[static_cast<size_t>(id)] = kLowest;
    ++num_barred;
  }
  return num_barred;
}

int32_t LogitRules::pick(std::span<const float> logits, TokenDraw draw) const {
  std::vector<float> copy(logits.begin(), logits.end());
  const auto num_left = static_cast<int64_t>(copy.size()) - apply(copy);
  // Rounding could let the last of all that may be drawn have what is left over.
  if (draw.top_k > 0) {
    draw.top_k = static_cast<int32_t>(std::clamp<int64_t>(num_left, 1, draw.top_k));
  }
  return sample(copy, draw);
}

}  // namespace colibri
