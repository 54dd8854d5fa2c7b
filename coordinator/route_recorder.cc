#include "coordinator/route_recorder.h"

#include "base/error.h"

namespace colibri {

void RouteRecorder::on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                              std::span<const float> weights) {
  const size_t count = batch.ids.size();
  check(batch.sequences.size() == count, "a batch of ", count, " tokens of ",
        batch.sequences.size(), " sequences");
  // Layers come in ascending order, so another step has begun when they do not.
  if (layer <= last_layer_ || last_layer_ < 0) {
    tokens_.resize(count);
    for (size_t t = 0; t < count; ++t) {
      tokens_[t] = {batch.sequences[t], batch.positions[t], batch.ids[t]};
    }
    writer_.begin_step(tokens_);
  }
  last_layer_ = layer;
  writer_.add_layer(layer, expert_ids, weights);
}

}  // namespace colibri
