// Who wants to know which experts each token chose.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/batch.h"

namespace colibri {

class RouteObserver {
 public:
  virtual ~RouteObserver() = default;

  // Called once for each layer with experts and each step, on the coordinator's thread, before the
  // experts run. Of token t of `batch`, expert_ids[t * K, (t + 1) * K) [T, K] are the choice,
  // ascending, and weights [T, K] what their results are multiplied by. Both are read only during
  // the call.
  // Errors: the observer's own; they end the step.
  virtual void on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                         std::span<const float> weights) = 0;
};

// Hands every choice on to several observers, in the order they were added.
class RouteObservers : public RouteObserver {
 public:
  // It outlives this, or the last step.
  void add(RouteObserver& observer) { observers_.push_back(&observer); }
  void on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                 std::span<const float> weights) override {
    for (RouteObserver* observer : observers_) {
      observer->on_routes(layer, batch, expert_ids, weights);
    }
  }

 private:
  std::vector<RouteObserver*> observers_;
};

}  // namespace colibri
