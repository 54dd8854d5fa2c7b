#include "coordinator/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/mix.h"
#include "kernels/pick_token.h"

namespace colibri {

void check_sampling(const SamplingParams& params) {
  if (params.greedy) return;
  if (!(params.temperature > 0) || !std::isfinite(params.temperature)) {
    fail(ErrorKind::kInput, "--temperature is ", params.temperature,
         ", want a number above 0 (or --greedy)");
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    fail(ErrorKind::kInput, "--top-p is ", params.top_p, ", want a number in (0, 1]");
  }
  if (params.top_k < 0) {
    fail(ErrorKind::kInput, "--top-k is ", params.top_k, ", want 0 (off) or more");
  }
  if (!(params.min_p >= 0 && params.min_p < 1)) {
    fail(ErrorKind::kInput, "--min-p is ", params.min_p, ", want a number in [0, 1)");
  }
}

double random_unit(uint64_t seed, uint64_t choice_idx, uint64_t position) {
  const uint64_t bits = mix(mix(mix(seed) ^ choice_idx) ^ position);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

TokenDraw token_draw(const SamplingParams& params, const DrawPlace& place, int64_t vocab_size) {
  if (params.greedy) return {};
  const int64_t top_k = params.top_k > 0 ? params.top_k : vocab_size;
  return {.unit = random_unit(params.seed, place.choice_idx, place.position),
          .top_k = static_cast<int32_t>(std::min(top_k, vocab_size)),
          .temperature = params.temperature,
          .top_p = params.top_p,
          .min_p = params.min_p};
}

int32_t sample(std::span<const float> logits, const TokenDraw& draw) {
  const int32_t id = pick_token(logits, draw);
  if (id >= 0) return id;
  const auto bad = std::find_if_not(logits.begin(), logits.end(),
                                    [](float logit) { return std::isfinite(logit); });
  fail(ErrorKind::kInput, "the logit of token ", bad - logits.begin(), " is ", *bad,
       "; the checkpoint's weights are damaged or not meant for this configuration");
}

}  // namespace colibri
