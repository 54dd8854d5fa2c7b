#include "coordinator/scheduler.h"

#include <algorithm>

namespace colibri {

void plan_step(std::span<const SequenceState> sequences, const StepLimits& limits,
               std::vector<StepPart>& parts) {
  parts.clear();
  int64_t room = limits.max_tokens;
  const auto take = [&](bool decoding) {
    for (size_t i = 0; i < sequences.size() && room > 0; ++i) {
      const int64_t waiting = sequences[i].num_known - sequences[i].num_cached;
      if (waiting == 0 || (waiting == 1) != decoding) continue;
      const int64_t count = std::min({waiting, limits.chunk, room});
      parts.push_back({static_cast<int>(i), count});
      room -= count;
    }
  };
  take(true);
  take(false);
}

}  // namespace colibri
