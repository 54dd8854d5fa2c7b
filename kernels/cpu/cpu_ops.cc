#include "kernels/cpu/cpu_ops.h"

#include "base/quantised.h"

namespace colibri {

// Row operations: a few passes over each row, split by rows.

void CpuOps::rms_norm(const RmsNorm& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_rows, 2 * a.width, 1,
             [&](int64_t begin, int64_t end) { kernels_.rms_norm(a, begin, end); });
}

void CpuOps::quantise_rows(const QuantiseRows& a, Stream& stream) {
  const int64_t row_bytes = activation_row_bytes(a.width);
  run_ranges(host_pool(stream), a.num_rows, 2 * a.width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int8_t* codes = static_cast<int8_t*>(a.out) + row * row_bytes;
      float* scales = reinterpret_cast<float*>(codes + a.width);
      kernels_.quantise_groups(a.x + row * a.x_stride, codes, scales, a.width);
    }
  });
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
