#include "kernels/cpu/cpu_ops.h"
#include "kernels/pick_token.h"

namespace colibri {

void CpuOps::pick_tokens(const PickTokens& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_rows, a.vocabulary, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const TokenDraw draw = a.draws == nullptr ? TokenDraw{} : a.draws[row];
      a.ids[row] = pick_token({a.logits + row * a.stride, static_cast<size_t>(a.vocabulary)}, draw);
    }
  });
}

}  // namespace colibri
