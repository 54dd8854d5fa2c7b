#include "coordinator/return_capacity.h"

#include <algorithm>

namespace colibri {

ReturnCapacity::ReturnCapacity(int num_layers, int64_t top_k, int first_share)
    : top_k_(top_k), layers_(static_cast<size_t>(num_layers), Layer{.share = first_share}) {}

int32_t ReturnCapacity::of(int layer, int64_t num_tokens) const {
  const int64_t all = num_tokens * top_k_;
  if (num_tokens <= kAlwaysFits) return static_cast<int32_t>(all);
  const int share = layers_[static_cast<size_t>(layer)].share;
  return static_cast<int32_t>((all * share + kShares - 1) / kShares);
}

// Half as much again, and the next even share, so that few different sizes come up.
int ReturnCapacity::share_with_room(int seen) const {
  const int wanted = seen + (seen + 1) / 2 + 1;
  return std::min(kShares, (wanted + 1) / 2 * 2);
}

void ReturnCapacity::observe(int layer, int64_t num_tokens, int64_t num_results) {
  if (num_tokens <= kAlwaysFits) return;
  Layer& l = layers_[static_cast<size_t>(layer)];
  const int64_t all = num_tokens * top_k_;
  const int seen = static_cast<int>((num_results * kShares + all - 1) / all);
  l.highest_seen = std::max(l.highest_seen, seen);
  if (num_results > of(layer, num_tokens)) {
    change(l, share_with_room(seen));
    l.highest_seen = seen;
    return;
  }
  if (++l.steps < kPatience) return;
  change(l, std::min(l.share, share_with_room(l.highest_seen)));
}

// And begins to look anew.
void ReturnCapacity::change(Layer& layer, int share) {
  if (share != layer.share) ++version_;
  layer = {share, 0, 0};
}

}  // namespace colibri
