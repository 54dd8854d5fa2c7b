#include "kernels/cpu/cpu_ops.h"

namespace colibri {

// Row operations: a few passes over each row, split by rows.

void CpuOps::rms_norm(const RmsNorm& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_rows, 2 * a.width, 1,
             [&](int64_t begin, int64_t end) { kernels_.rms_norm(a, begin, end); });
}

void CpuOps::rope(const Rope& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_tokens, 2 * a.num_heads * a.half_dim, 1,
             [&](int64_t begin, int64_t end) { kernels_.rope(a, begin, end); });
}

void CpuOps::silu_mul(const SiluMul& a, Stream& stream) {
  run_ranges(host_pool(stream), a.count, 8, 1024, [&](int64_t begin, int64_t end) {
    kernels_.silu_mul(a.gate + begin, a.up + begin, a.out + begin, end - begin);
  });
}

void CpuOps::sigmoid(const Elementwise& a, Stream& stream) {
  run_ranges(host_pool(stream), a.count, 8, 1024, [&](int64_t begin, int64_t end) {
    kernels_.sigmoid(a.x + begin, a.x + begin, end - begin);
  });
}

void CpuOps::combine(const Combine& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_tokens, (a.top_k + 2) * a.hidden_size, 1,
             [&](int64_t begin, int64_t end) { kernels_.combine(a, begin, end); });
}

}  // namespace colibri
