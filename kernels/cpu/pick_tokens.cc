#include <algorithm>
#include <cmath>
#include <vector>

#include "base/exp.h"
#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

struct Candidate {
  int32_t id;
  float logit;
  double weight;  // probability without its normaliser
};

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

int32_t pick(const float* logits, int64_t vocabulary) {
  int64_t best = 0;
  for (int64_t i = 0; i < vocabulary; ++i) {
    if (!std::isfinite(logits[i])) return -1;
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

std::vector<Candidate> most_likely(const float* logits, int64_t vocabulary, const TokenDraw& draw) {
  std::vector<Candidate> all(static_cast<size_t>(vocabulary));
  for (size_t i = 0; i < all.size(); ++i) all[i] = {static_cast<int32_t>(i), logits[i], 0};
  const auto k = std::min(vocabulary, int64_t{draw.top_k});
  std::partial_sort(all.begin(), all.begin() + k, all.end(), more_likely);
  all.resize(static_cast<size_t>(k));
  const auto temperature = static_cast<double>(draw.temperature);
  const double top = static_cast<double>(all.front().logit) / temperature;
  for (Candidate& c : all) {
    c.weight = exp_of_negative(static_cast<double>(c.logit) / temperature - top);
  }
  return all;
}

double total_weight(const std::vector<Candidate>& all) {
  double total = 0;
  for (const Candidate& c : all) total += c.weight;
  return total;
}

int32_t draw_token(const float* logits, int64_t vocabulary, const TokenDraw& draw) {
  std::vector<Candidate> all = most_likely(logits, vocabulary, draw);
  if (draw.top_p < 1) {
    const double wanted = static_cast<double>(draw.top_p) * total_weight(all);
    double sum = 0;
    size_t kept = 0;
    while (kept < all.size() && sum < wanted) sum += all[kept++].weight;
    all.resize(std::max<size_t>(kept, 1));
  }
  const double least = static_cast<double>(draw.min_p) * all.front().weight;
  while (all.size() > 1 && all.back().weight < least) all.pop_back();
  double left = draw.unit * total_weight(all);
  for (const Candidate& c : all) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return all.back().id;
}

}  // namespace

void CpuOps::pick_tokens(const PickTokens& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_rows, a.vocabulary, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* logits = a.logits + row * a.stride;
      a.ids[row] = pick(logits, a.vocabulary);
      if (a.draws == nullptr || a.draws[row].top_k == 0 || a.ids[row] < 0) continue;
      a.ids[row] = draw_token(logits, a.vocabulary, a.draws[row]);
    }
  });
}

}  // namespace colibri
