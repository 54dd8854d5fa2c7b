#include "topology/planner_pairs.h"

#include <algorithm>

namespace colibri {

bool PairTable::are_counted(const ExpertLoads* loads, int layer) {
  bool has_some = false;
  if (loads == nullptr) return false;
  for (const LoadPhase phase : {LoadPhase::kPrefill, LoadPhase::kDecode}) {
    const LayerLoads& of_layer = loads->of(phase, layer);
    if (of_layer.num_tokens <= 0) continue;
    if (of_layer.pairs.empty()) return false;
    has_some = true;
  }
  return has_some;
}

bool PairTable::are_equal(const ExpertLoads& loads, int layer, int other) {
  return std::all_of(loads.phases.begin(), loads.phases.end(), [&](const auto& layers) {
    return layers[static_cast<size_t>(layer)] == layers[static_cast<size_t>(other)];
  });
}

void PairTable::load(const ExpertLoads& loads, int layer) {
  const auto num_experts = static_cast<size_t>(loads.num_experts);
  // A block more than needed: columns would else lie in few sets of the cache.
  stride_ = (num_experts / kBlock + 2) * kBlock;
  chances_.resize(num_experts * stride_);  // zeros; what is not written below stays so
  double num_tokens = 0;
  for (const auto& layers : loads.phases) {
    num_tokens += layers[static_cast<size_t>(layer)].num_tokens;
  }
  const double each = 1 / num_tokens;
  bool is_first = true;
  for (const auto& layers : loads.phases) {
    const LayerLoads& of_layer = layers[static_cast<size_t>(layer)];
    if (of_layer.num_tokens <= 0) continue;
    const double* from = of_layer.pairs.data();
    for (size_t b = 1; b < num_experts; ++b) {
      float *of_b = &chances_[b * stride_], *to_b = &chances_[b];
      for (size_t a = 0; a < b; ++a) {
        const double before = is_first ? 0 : of_b[a];
        of_b[a] = to_b[a * stride_] = static_cast<float>(before + from[a] * each);
      }
      from += b;
    }
    is_first = false;
  }
}

}  // namespace colibri
