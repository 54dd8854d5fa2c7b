#include <cmath>

#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

int32_t pick(const float* logits, int64_t vocabulary) {
  int64_t best = 0;
  for (int64_t i = 0; i < vocabulary; ++i) {
    if (!std::isfinite(logits[i])) return -1;
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

void CpuOps::pick_tokens(const PickTokens& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_rows, a.vocabulary, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      a.ids[row] = pick(a.logits + row * a.stride, a.vocabulary);
    }
  });
}

}  // namespace colibri
