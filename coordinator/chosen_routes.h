// Another choice of experts than the router's for steps whose plan is made on the device: of all
// layers before the step, so that the device need not wait for the host, nor a graph for either.
#pragma once

#include "base/buffer.h"
#include "base/staging_buffer.h"
#include "coordinator/expert_path.h"
#include "coordinator/route_override.h"
#include "kernels/backend.h"
#include "model/config.h"

namespace colibri {

class ChosenRoutes {
 public:
  // Takes room for steps of max_tokens tokens. `routing` may be null: every call then does nothing.
  // All outlive this.
  ChosenRoutes(const Backend& backend, const ModelConfig& config, int64_t max_tokens,
               RouteOverride* routing);

  // The choices of all layers for `batch`, which is `num_tokens` tokens with padding. The step
  // before is done.
  void choose(const Batch& batch, int64_t num_tokens, Stream& stream);
  // Puts those of a layer in the place of the router's.
  void put(const RoutedTokens& tokens, Stream& stream);

 private:
  size_t numbers() const { return static_cast<size_t>(num_tokens_ * config_.top_k); }

  Backend backend_;
  const ModelConfig& config_;
  RouteOverride* routing_;
  int64_t num_tokens_ = 0;                 // of this step
  StagingBuffer host_ids_, host_weights_;  // [L, T, K]
  Buffer ids_, weights_;
};

}  // namespace colibri
