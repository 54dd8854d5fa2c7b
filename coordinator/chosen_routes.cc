#include "coordinator/chosen_routes.h"

#include <algorithm>
#include <span>

namespace colibri {
namespace {

size_t room(const ModelConfig& config, int64_t max_tokens, const RouteOverride* routing) {
  if (routing == nullptr) return 0;
  return static_cast<size_t>(config.num_layers * max_tokens * config.top_k) * sizeof(int32_t);
}

}  // namespace

static_assert(sizeof(int32_t) == sizeof(float));

ChosenRoutes::ChosenRoutes(const Backend& backend, const ModelConfig& config, int64_t max_tokens,
                           RouteOverride* routing)
    : backend_(backend),
      config_(config),
      routing_(routing),
      host_ids_(*backend.device, room(config, max_tokens, routing)),
      host_weights_(*backend.device, room(config, max_tokens, routing)),
      ids_(*backend.device, room(config, max_tokens, routing)),
      weights_(*backend.device, room(config, max_tokens, routing)) {}

// Padding chooses the first experts with no weight: it makes no rows.
void ChosenRoutes::choose(const Batch& batch, int64_t num_tokens, Stream& stream) {
  if (routing_ == nullptr) return;
  num_tokens_ = num_tokens;
  const auto top_k = static_cast<size_t>(config_.top_k), each = numbers();
  const auto real = static_cast<size_t>(batch.num_tokens()) * top_k;
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    const size_t at = each * static_cast<size_t>(layer);
    const std::span<int32_t> ids(host_ids_.as<int32_t>() + at, each);
    const std::span<float> weights(host_weights_.as<float>() + at, each);
    for (size_t i = 0; i < each; ++i) ids[i] = static_cast<int32_t>(i % top_k);
    std::fill(weights.begin(), weights.end(), 0.0f);
    if (!config_.layer_is_moe[static_cast<size_t>(layer)]) continue;
    routing_->choose(layer, batch, ids.first(real), weights.first(real));
  }
  const size_t bytes = each * static_cast<size_t>(config_.num_layers) * sizeof(int32_t);
  backend_.device->copy(ids_.as<int32_t>(), host_ids_.as<int32_t>(), bytes, stream);
  backend_.device->copy(weights_.as<float>(), host_weights_.as<float>(), bytes, stream);
}

void ChosenRoutes::put(const RoutedTokens& tokens, Stream& stream) {
  if (routing_ == nullptr) return;
  const size_t at = numbers() * static_cast<size_t>(tokens.layer);
  const size_t bytes = numbers() * sizeof(int32_t);
  backend_.device->copy(tokens.expert_ids, ids_.as<int32_t>() + at, bytes, stream);
  backend_.device->copy(tokens.weights, weights_.as<float>() + at, bytes, stream);
}

}  // namespace colibri
