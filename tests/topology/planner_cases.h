// Loads and scores for the comparison of plans.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/mix.h"
#include "topology/planner.h"

namespace colibri {

inline ModelShape plan_shape(int num_experts, int top_k, int num_layers = 1) {
  ModelShape shape;
  shape.family = "qwen3_moe";
  shape.fingerprint = "f00d";
  shape.num_layers = num_layers;
  shape.num_experts = num_experts;
  shape.top_k = top_k;
  shape.layer_is_moe.assign(static_cast<size_t>(num_layers), true);
  shape.expert_bytes = 1000;
  return shape;
}

// Draws that are the same everywhere.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(mix(seed)) {}
  double uniform() {  // in (0, 1)
    state_ = mix(state_);
    return (static_cast<double>(state_ >> 11) + 0.5) * 0x1p-53;
  }
  size_t below(size_t bound) { return static_cast<size_t>(uniform() * static_cast<double>(bound)); }

 private:
  uint64_t state_;
};

// 1 / rank^s in an order drawn by `seed`, sum 1.
inline std::vector<double> zipf_weights(int num_experts, double s, uint64_t seed) {
  std::vector<double> weights;
  double sum = 0;
  for (int i = 1; i <= num_experts; ++i) {
    weights.push_back(std::pow(i, -s));
    sum += weights.back();
  }
  Draws draws(seed);
  for (size_t n = weights.size(); n > 1; --n) std::swap(weights[n - 1], weights[draws.below(n)]);
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Loads of one layer whose experts are chosen in proportion to `weights`, one a token.
inline ExpertLoads exact_loads(const ModelShape& shape, const std::vector<double>& weights) {
  ExpertLoads loads = empty_loads(shape, false);
  for (LayerLoads& layer : loads.phases[1]) {
    layer.num_tokens = 1e9;
    for (size_t e = 0; e < weights.size(); ++e) layer.tokens[e] = 1e9 * weights[e];
  }
  return loads;
}

// Counts of tokens that each draw K experts without putting back, in proportion to `weights`.
inline LayerLoads sampled_layer(const std::vector<double>& weights, int top_k, int num_tokens,
                                uint64_t seed, bool with_pairs) {
  LayerLoads layer;
  const size_t n = weights.size();
  layer.num_tokens = num_tokens;
  layer.tokens.assign(n, 0);
  if (with_pairs) layer.pairs.assign(n * (n - 1) / 2, 0);
  Draws draws(seed);
  std::vector<double> up_to(n);
  std::partial_sum(weights.begin(), weights.end(), up_to.begin());
  std::vector<size_t> chosen;
  for (int token = 0; token < num_tokens; ++token) {
    chosen.clear();
    while (chosen.size() < static_cast<size_t>(top_k)) {  // drawn again when it came before
      const double at = draws.uniform() * up_to.back();
      const auto e =
          static_cast<size_t>(std::lower_bound(up_to.begin(), up_to.end(), at) - up_to.begin());
      if (std::find(chosen.begin(), chosen.end(), e) == chosen.end()) chosen.push_back(e);
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      ++layer.tokens[chosen[i]];
      for (size_t j = 0; with_pairs && j < i; ++j) ++layer.pairs[pair_index(chosen[i], chosen[j])];
    }
  }
  return layer;
}

// A rank's time is its pairs, nothing else counts: what EPLB balances.
inline LayerTerms balance_terms(int num_ranks) {
  LayerTerms terms;
  terms.num_tokens = 1;
  const auto ranks = static_cast<size_t>(num_ranks);
  terms.expert_fixed_us.assign(ranks, 0);
  terms.touched_us.assign(ranks, 0);
  terms.row_us.assign(ranks, 1);
  return terms;
}

using RankExperts = std::vector<std::vector<int32_t>>;  // of one layer

inline RankExperts lists_of(const Placement& placement, int layer) {
  RankExperts lists;
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    const auto experts = placement.experts_of(layer, rank);
    lists.emplace_back(experts.begin(), experts.end());
  }
  return lists;
}

// Mean over max of the GPUs' loads, each slot with an equal share of its expert's.
inline double balance_of(const RankExperts& lists, const std::vector<double>& loads) {
  std::vector<double> copies(loads.size(), 0);
  for (const auto& list : lists) {
    for (const int32_t e : list) ++copies[static_cast<size_t>(e)];
  }
  double most = 0, all = 0;
  for (const auto& list : lists) {
    double sum = 0;
    for (const int32_t e : list)
      sum += loads[static_cast<size_t>(e)] / copies[static_cast<size_t>(e)];
    most = std::max(most, sum);
    all += sum;
  }
  return all / static_cast<double>(lists.size()) / most;
}

inline int duplicates_in(const RankExperts& lists) {
  int count = 0;
  for (auto list : lists) {
    std::sort(list.begin(), list.end());
    count += static_cast<int>(list.end() - std::unique(list.begin(), list.end()));
  }
  return count;
}

}  // namespace colibri
