// Counts which experts are chosen, and which together, of prompts and of decoding tokens:
// --record-loads.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "coordinator/route_observer.h"
#include "topology/loads.h"

namespace colibri {

// on_routes() on the coordinator's thread, loads() on any.
class LoadRecorder : public RouteObserver {
 public:
  explicit LoadRecorder(const ModelShape& shape)
      : loads_(empty_loads(shape, /*with_pairs=*/true)) {}

  // A sequence with one token in a step decodes, one with several is a prompt. Cost: K (K + 1) / 2
  // additions a token.
  void on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                 std::span<const float> weights) override;

  ExpertLoads loads() const;
  // And begins anew.
  ExpertLoads take();

 private:
  void find_phases(const Batch& batch);

  mutable std::mutex mutex_;
  ExpertLoads loads_;
  std::vector<LoadPhase> phases_;  // [T] of this step's tokens
};

}  // namespace colibri
