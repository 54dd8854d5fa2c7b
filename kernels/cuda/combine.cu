// Combine: residual + ((sum over k of weight * result) + shared * gate). Bound by memory: each
// result is read once. A thread takes four columns of one token and walks the chosen experts in
// order; the loads of several experts are under way at once.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kCombineThreads = 128;
constexpr int kCombineEach = 4;   // columns a thread
constexpr int kCombineAhead = 4;  // results whose loads are under way

using CombineFour = Pack<float, kCombineEach>;

// One choice's result; only the device knows whether its place is a multiple of 16 bytes.
template <bool aligned>
__device__ __forceinline__ CombineFour load_result(const Combine& a, int64_t choice,
                                                   int64_t column) {
  const int64_t offset = load(a.result_offset + choice);
  const float* from = a.results + offset + column;
  const int64_t left = a.hidden_size - column;
  if (aligned && offset % kCombineEach == 0) return load_pack<kCombineEach, true>(from, left);
  return load_pack<kCombineEach, false>(from, left);
}

template <bool aligned>
__device__ __forceinline__ CombineFour weighted_sum(const Combine& a, int64_t token,
                                                    int64_t column) {
  const int64_t end = (token + 1) * a.top_k;
  CombineFour total = {};
  for (int64_t first = token * a.top_k; first < end; first += kCombineAhead) {
    CombineFour result[kCombineAhead];
    for (int k = 0; k < kCombineAhead; ++k) {
      if (first + k < end) result[k] = load_result<aligned>(a, first + k, column);
    }
    for (int k = 0; k < kCombineAhead; ++k) {
      if (first + k >= end) continue;
      const float weight = load(a.weights + first + k);
      for (int i = 0; i < kCombineEach; ++i) {
        total.at[i] = fma_exact(weight, result[k].at[i], total.at[i]);
      }
    }
  }
  return total;
}

template <bool aligned>
__global__ void combine_kernel(Combine a) {
  const int64_t token = blockIdx.x;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.y) * kCombineThreads + static_cast<int64_t>(threadIdx.x)) *
      kCombineEach;
  if (column >= a.hidden_size) return;
  const int64_t left = a.hidden_size - column, at = token * a.hidden_size + column;
  auto out = load_pack<kCombineEach, aligned>(a.residual + at, left);
  CombineFour total = weighted_sum<aligned>(a, token, column);
  if (a.shared != nullptr) {
    const float gate = a.shared_gate == nullptr ? 1.0f : load(a.shared_gate + token);
    const auto shared = load_pack<kCombineEach, aligned>(a.shared + at, left);
    for (int i = 0; i < kCombineEach; ++i) total.at[i] = total.at[i] + shared.at[i] * gate;
  }
  for (int i = 0; i < kCombineEach; ++i) out.at[i] = out.at[i] + total.at[i];
  store_pack<kCombineEach, aligned>(a.out + at, out, left);
}

void combine(const Combine& a, cudaStream_t stream) {
  const bool aligned = aligned_to(16, {a.residual, a.results, a.shared, a.out},
                                  {a.hidden_size * static_cast<int64_t>(sizeof(float))});
  launch(aligned ? combine_kernel<true> : combine_kernel<false>,
         {.blocks = dim3(blocks_for(a.num_tokens, 1),
                         blocks_for(a.hidden_size, kCombineThreads * kCombineEach)),
          .threads = kCombineThreads,
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
