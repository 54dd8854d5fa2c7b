#include "coordinator/load_recorder.h"

#include <algorithm>

namespace colibri {

// Tokens of one sequence lie beside each other.
void LoadRecorder::find_phases(const Batch& batch) {
  const auto& sequences = batch.sequences;
  phases_.resize(sequences.size());
  for (size_t t = 0; t < sequences.size(); ++t) {
    const bool has_more = (t > 0 && sequences[t - 1] == sequences[t]) ||
                          (t + 1 < sequences.size() && sequences[t + 1] == sequences[t]);
    phases_[t] = has_more ? LoadPhase::kPrefill : LoadPhase::kDecode;
  }
}

void LoadRecorder::on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                             std::span<const float>) {
  const std::lock_guard lock(mutex_);
  find_phases(batch);
  const auto k = static_cast<size_t>(loads_.top_k);
  for (size_t t = 0; t < phases_.size(); ++t) {
    LayerLoads& loads = loads_.phases[static_cast<size_t>(phases_[t])][static_cast<size_t>(layer)];
    const std::span<const int32_t> ids = expert_ids.subspan(t * k, k);  // ascending
    loads.num_tokens += 1;
    for (size_t i = 0; i < k; ++i) {
      const auto high = static_cast<size_t>(ids[i]);
      loads.tokens[high] += 1;
      double* const pairs = loads.pairs.data() + high * (high - (high > 0 ? 1 : 0)) / 2;
      for (size_t j = 0; j < i; ++j) pairs[static_cast<size_t>(ids[j])] += 1;
    }
  }
}

ExpertLoads LoadRecorder::loads() const {
  const std::lock_guard lock(mutex_);
  return loads_;
}

ExpertLoads LoadRecorder::take() {
  const std::lock_guard lock(mutex_);
  ExpertLoads taken = loads_;
  for (auto& layers : loads_.phases) {
    for (LayerLoads& layer : layers) {
      layer.num_tokens = 0;
      std::fill(layer.tokens.begin(), layer.tokens.end(), 0);
      std::fill(layer.pairs.begin(), layer.pairs.end(), 0);
    }
  }
  return taken;
}

}  // namespace colibri
