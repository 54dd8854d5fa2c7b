#include "coordinator/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/exp.h"
#include "base/mix.h"

namespace colibri {
namespace {

struct Candidate {
  int32_t id;
  double weight;  // logit / temperature first, then probability without its normaliser
};

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingParams& params) {
  std::vector<Candidate> all(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    all[i] = {static_cast<int32_t>(i),
              static_cast<double>(logits[i]) / static_cast<double>(params.temperature)};
  }
  const size_t k =
      params.top_k > 0 ? std::min(all.size(), static_cast<size_t>(params.top_k)) : all.size();
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(),
                    more_likely);
  all.resize(k);
  const double top = all.front().weight;
  for (Candidate& c : all) c.weight = exp_of_negative(c.weight - top);
  return all;
}

double total_weight(const std::vector<Candidate>& all) {
  double total = 0;
  for (const Candidate& c : all) total += c.weight;
  return total;
}

// Keeps the shortest head whose share reaches top_p.
void keep_top_p(std::vector<Candidate>& all, double top_p) {
  if (top_p >= 1) return;
  const double wanted = top_p * total_weight(all);
  double sum = 0;
  size_t kept = 0;
  while (kept < all.size() && sum < wanted) sum += all[kept++].weight;
  all.resize(std::max<size_t>(kept, 1));
}

void keep_min_p(std::vector<Candidate>& all, double min_p) {
  const double least = min_p * all.front().weight;
  while (all.size() > 1 && all.back().weight < least) all.pop_back();
}

}  // namespace

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

int32_t argmax(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      fail(ErrorKind::kInput, "the logit of token ", i, " is ", logits[i],
           "; the checkpoint's weights are damaged or not meant for this configuration");
    }
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

int32_t sample(std::span<const float> logits, const SamplingParams& params, uint64_t choice_idx,
               uint64_t position) {
  const int32_t most_likely = argmax(logits);
  if (params.greedy) return most_likely;
  std::vector<Candidate> all = candidates(logits, params);
  keep_top_p(all, static_cast<double>(params.top_p));
  keep_min_p(all, static_cast<double>(params.min_p));
  double left = random_unit(params.seed, choice_idx, position) * total_weight(all);
  for (const Candidate& c : all) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return all.back().id;
}

}  // namespace colibri
