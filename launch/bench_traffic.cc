#include "launch/bench_traffic.h"

#include <algorithm>

namespace colibri {

TrafficCounter::TrafficCounter(const ModelShape& shape)
    : shape_(shape),
      chosen_(static_cast<size_t>(shape.num_experts)),
      touched_(shape.layer_is_moe.size()) {
  const auto first = std::find(shape.layer_is_moe.begin(), shape.layer_is_moe.end(), true);
  first_moe_layer_ = static_cast<int>(first - shape.layer_is_moe.begin());
}

void TrafficCounter::on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                               std::span<const float>) {
  if (layer == first_moe_layer_) add_step(batch);
  std::fill(chosen_.begin(), chosen_.end(), false);
  for (const int32_t expert : expert_ids) chosen_[static_cast<size_t>(expert)] = true;
  const auto distinct = static_cast<uint64_t>(std::count(chosen_.begin(), chosen_.end(), true));
  touched_[static_cast<size_t>(layer)] += distinct;
  total_.bytes += distinct * static_cast<uint64_t>(shape_.expert_bytes);
  total_.macs += expert_ids.size() * static_cast<uint64_t>(shape_.expert_macs());
}

void TrafficCounter::add_step(const Batch& batch) {
  uint64_t seen = 0;  // positions that all tokens attend to
  for (const int32_t position : batch.positions) seen += static_cast<uint64_t>(position) + 1;
  const auto tokens = static_cast<uint64_t>(batch.num_tokens());
  const uint64_t logit_rows = batch.logit_rows.size();
  total_.bytes += static_cast<uint64_t>(shape_.layer_bytes) +
                  seen * static_cast<uint64_t>(shape_.kv_bytes_per_token);
  if (logit_rows > 0) total_.bytes += static_cast<uint64_t>(shape_.head_bytes);
  total_.macs += tokens * static_cast<uint64_t>(shape_.dense_macs) +
                 logit_rows * static_cast<uint64_t>(shape_.head_macs) +
                 seen * static_cast<uint64_t>(shape_.attention_macs);
}

}  // namespace colibri
