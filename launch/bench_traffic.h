// How many bytes a run had to read and how many multiply-adds it had to do: what measured times are
// held against.
#pragma once

#include <cstdint>
#include <vector>

#include "base/model_shape.h"
#include "coordinator/route_observer.h"

namespace colibri {

struct Traffic {
  uint64_t bytes = 0;  // weights once a step, each chosen expert once a layer, keys and values seen
  uint64_t macs = 0;   // multiply-adds of products, experts and attention

  Traffic operator-(const Traffic& before) const {
    return {bytes - before.bytes, macs - before.macs};
  }
};

class TrafficCounter : public RouteObserver {
 public:
  // `shape` outlives it.
  explicit TrafficCounter(const ModelShape& shape);

  void on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                 std::span<const float> weights) override;
  const Traffic& total() const { return total_; }
  // [L] experts with a token, summed over steps.
  const std::vector<uint64_t>& touched() const { return touched_; }

 private:
  void add_step(const Batch& batch);

  const ModelShape& shape_;
  int first_moe_layer_ = 0;
  Traffic total_;
  std::vector<bool> chosen_;  // [E] in this layer and step
  std::vector<uint64_t> touched_;
};

}  // namespace colibri
