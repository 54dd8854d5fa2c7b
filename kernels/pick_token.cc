#include "kernels/pick_token.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/exp.h"

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

int32_t most_likely(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return -1;
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

std::vector<Candidate> keep_top_k(std::span<const float> logits, const TokenDraw& draw) {
  std::vector<Candidate> all(logits.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = {static_cast<int32_t>(i), logits[i], 0};
  const size_t k = std::min(all.size(), static_cast<size_t>(draw.top_k));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(),
                    more_likely);
  all.resize(k);
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

int32_t pick_token(std::span<const float> logits, const TokenDraw& draw) {
  const int32_t best = most_likely(logits);
  if (draw.top_k == 0 || best < 0) return best;
  std::vector<Candidate> all = keep_top_k(logits, draw);
  keep_top_p(all, static_cast<double>(draw.top_p));
  keep_min_p(all, static_cast<double>(draw.min_p));
  double left = draw.unit * total_weight(all);
  for (const Candidate& c : all) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return all.back().id;
}

}  // namespace colibri
