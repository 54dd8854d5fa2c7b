// Choice of experts. Scores come from the kernel table; choosing is scalar and the same everywhere.
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

struct TokenScores {
  std::array<float, kMaxExperts> score;   // what weights are made of
  std::array<float, kMaxExperts> choice;  // what decides; -infinity once out of the race
};
constexpr float kOut = -std::numeric_limits<float>::infinity();

bool all_finite(const float* x, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) finite &= std::isfinite(x[i]);
  return finite;
}

// The first of the largest, so that the lower index wins a tie.
int index_of_largest(const float* x, int count) {
  int best = 0;
  for (int i = 1; i < count; ++i) best = x[i] > x[best] ? i : best;
  return best;
}

float score_group(const float* choice, int size, GroupScore kind) {
  float first = kOut, second = kOut;
  for (int i = 0; i < size; ++i) {
    second = std::max(second, std::min(first, choice[i]));
    first = std::max(first, choice[i]);
  }
  return kind == GroupScore::kMax || size == 1 ? first : first + second;
}

void drop_groups(const RouterKnobs& knobs, float* choice) {
  const int size = knobs.num_experts / knobs.num_groups;
  std::array<float, kMaxExperts> group;
  for (int g = 0; g < knobs.num_groups; ++g) {
    group[g] = score_group(choice + g * size, size, knobs.group_score);
  }
  std::array<bool, kMaxExperts> kept{};
  for (int i = 0; i < knobs.top_groups; ++i) {
    const int best = index_of_largest(group.data(), knobs.num_groups);
    kept[best] = true;
    group[best] = kOut;
  }
  for (int e = 0; e < knobs.num_experts; ++e) {
    if (!kept[e / size]) choice[e] = kOut;
  }
}

void choose(const RouterKnobs& knobs, float* choice, int32_t* ids) {
  for (int k = 0; k < knobs.top_k; ++k) {
    const int best = index_of_largest(choice, knobs.num_experts);
    choice[best] = kOut;
    ids[k] = best;
  }
  std::sort(ids, ids + knobs.top_k);
}

void weigh(const RouterKnobs& knobs, const float* score, const int32_t* ids, float* weights) {
  float sum = 0;
  for (int k = 0; k < knobs.top_k; ++k) {
    weights[k] = score[ids[k]];
    sum += weights[k];
  }
  for (int k = 0; k < knobs.top_k; ++k) {
    if (knobs.renormalise) weights[k] /= sum + knobs.renormalise_eps;
    weights[k] *= knobs.scale;
  }
}

void route_token(const KernelTable& kernels, const Route& a, int64_t t) {
  const RouterKnobs& knobs = a.knobs;
  const float* logits = a.logits + t * knobs.num_experts;
  int32_t* ids = a.expert_ids + t * knobs.top_k;
  TokenScores s;
  ids[0] = -1;
  if (!all_finite(logits, knobs.num_experts)) return;
  switch (knobs.score) {
    case ScoreFunction::kSoftmax:
      kernels.softmax(logits, s.score.data(), knobs.num_experts);
      break;
    case ScoreFunction::kSigmoid:
      kernels.sigmoid(logits, s.score.data(), knobs.num_experts);
      break;
  }
  for (int e = 0; e < knobs.num_experts; ++e) {
    s.choice[e] = knobs.has_selection_bias ? s.score[e] + a.selection_bias[e] : s.score[e];
  }
  if (!all_finite(s.choice.data(), knobs.num_experts)) return;
  if (knobs.top_groups < knobs.num_groups) drop_groups(knobs, s.choice.data());
  choose(knobs, s.choice.data(), ids);
  weigh(knobs, s.score.data(), ids, a.weights + t * knobs.top_k);
}

}  // namespace

void CpuOps::route(const Route& a, Stream& stream) {
  check_router(a.knobs);
  const int64_t work = a.knobs.num_experts * (a.knobs.top_k + 16);
  run_ranges(host_pool(stream), a.num_tokens, work, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) route_token(kernels_, a, t);
  });
}

}  // namespace colibri
