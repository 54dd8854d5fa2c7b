#include "topology/loads.h"

#include "base/error.h"

namespace colibri {
namespace {

void merge_values(std::vector<double>& into, const std::vector<double>& more, double decay) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = decay * into[i] + more[i];
}

void merge_layer(LayerLoads& into, const LayerLoads& more, double decay) {
  // Where no token came nothing is missing when there are no pairs.
  if (into.num_tokens <= 0) into.pairs.assign(more.pairs.size(), 0);
  if (more.pairs.empty() && more.num_tokens > 0) into.pairs.clear();  // half would have none
  into.num_tokens = decay * into.num_tokens + more.num_tokens;
  merge_values(into.tokens, more.tokens, decay);
  if (more.pairs.empty()) {
    for (double& count : into.pairs) count *= decay;
  } else {
    merge_values(into.pairs, more.pairs, decay);
  }
}

}  // namespace

ExpertLoads empty_loads(const ModelShape& shape, bool with_pairs) {
  ExpertLoads loads{.family = shape.family,
                    .fingerprint = shape.fingerprint,
                    .num_layers = shape.num_layers,
                    .num_experts = shape.num_experts,
                    .top_k = shape.top_k,
                    .phases = {}};
  const auto experts = static_cast<size_t>(shape.num_experts);
  for (auto& layers : loads.phases) {
    layers.resize(static_cast<size_t>(shape.num_layers));
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      if (!shape.layer_is_moe[layer]) continue;
      layers[layer].tokens.assign(experts, 0);
      if (with_pairs) layers[layer].pairs.assign(experts * (experts - 1) / 2, 0);
    }
  }
  return loads;
}

std::vector<double> expert_shares(const ExpertLoads* loads, const ModelShape& shape, int layer) {
  const auto experts = static_cast<size_t>(shape.num_experts);
  std::vector<double> shares(experts, 0);
  double num_tokens = 0;
  if (loads != nullptr) {
    for (const auto& layers : loads->phases) {
      const LayerLoads& of_layer = layers.at(static_cast<size_t>(layer));
      num_tokens += of_layer.num_tokens;
      for (size_t e = 0; e < of_layer.tokens.size(); ++e) shares.at(e) += of_layer.tokens[e];
    }
  }
  for (double& share : shares) {
    share = num_tokens > 0 ? share / num_tokens
                           : static_cast<double>(shape.top_k) / static_cast<double>(experts);
  }
  return shares;
}

void merge_loads(ExpertLoads& into, const ExpertLoads& more, double decay) {
  if (into.fingerprint != more.fingerprint || into.num_layers != more.num_layers ||
      into.num_experts != more.num_experts) {
    fail(ErrorKind::kInput, "loads of model ", more.family, " ", more.fingerprint,
         " cannot be merged into those of ", into.family, " ", into.fingerprint);
  }
  for (size_t phase = 0; phase < kNumLoadPhases; ++phase) {
    for (size_t layer = 0; layer < into.phases[phase].size(); ++layer) {
      merge_layer(into.phases[phase][layer], more.phases[phase][layer], decay);
    }
  }
}

}  // namespace colibri
