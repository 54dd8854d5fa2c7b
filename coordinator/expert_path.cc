#include "coordinator/expert_path.h"

#include "base/error.h"

namespace colibri {

void check_choice(int layer, const Batch& batch, std::span<const int32_t> ids, int64_t top_k) {
  for (int64_t t = 0; t < batch.num_tokens(); ++t) {
    if (ids[static_cast<size_t>(t * top_k)] >= 0) continue;
    fail(ErrorKind::kInput, "layer ", layer, ": the router's logits for the token at position ",
         batch.positions[static_cast<size_t>(t)],
         " are not finite; the checkpoint's weights are damaged or not meant for this "
         "configuration");
  }
}

}  // namespace colibri
