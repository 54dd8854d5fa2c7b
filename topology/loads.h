// How often each expert of each layer was chosen, and which were chosen together: what the planner
// places by. Recorded by the coordinator (--record-loads), kept apart for prompts and for decoding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/model_shape.h"

namespace colibri {

enum class LoadPhase : uint8_t { kPrefill, kDecode };
inline constexpr size_t kNumLoadPhases = 2;

// Of one layer and phase. Weights are doubles: merging with decay makes fractions.
struct LayerLoads {
  double num_tokens = 0;
  std::vector<double> tokens;  // [E] tokens that chose the expert
  // [E (E - 1) / 2] tokens that chose both: of a < b at b (b - 1) / 2 + a. Empty: not counted.
  std::vector<double> pairs;
  friend bool operator==(const LayerLoads&, const LayerLoads&) = default;
};

constexpr size_t pair_index(size_t a, size_t b) {  // a != b
  const size_t low = a < b ? a : b, high = a < b ? b : a;
  return high * (high - 1) / 2 + low;
}

struct ExpertLoads {
  std::string family, fingerprint;  // of ModelShape: loads of another model are refused
  int num_layers = 0;               // L, dense layers included
  int num_experts = 0;              // E
  int top_k = 0;                    // K
  std::array<std::vector<LayerLoads>, kNumLoadPhases> phases;  // [phase][L]; dense layers empty

  const LayerLoads& of(LoadPhase phase, int layer) const {
    return phases[static_cast<size_t>(phase)].at(static_cast<size_t>(layer));
  }
  friend bool operator==(const ExpertLoads&, const ExpertLoads&) = default;
};

// No token yet; with room for pairs, or without.
ExpertLoads empty_loads(const ModelShape& shape, bool with_pairs);

// What a layer's loads say of one token: the chance [E] that it chooses each expert, sum K. Without
// tokens, or `loads` null, K / E each. Phases are weighed by their tokens.
std::vector<double> expert_shares(const ExpertLoads* loads, const ModelShape& shape, int layer);

// `into` becomes decay * into + more. 0 <= decay <= 1. kInput when they are of different models.
void merge_loads(ExpertLoads& into, const ExpertLoads& more, double decay);

}  // namespace colibri
