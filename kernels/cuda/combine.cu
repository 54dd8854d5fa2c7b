// Combine: residual + ((sum over k of weight * result) + shared * gate). Bound by memory: each
// result is read once. A thread takes four columns of one token, 16 bytes of everything in f32 and
// 8 of a result in bf16, and walks the chosen experts in order; the loads of several experts are
// under way at once, 64 bytes in both forms.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kCombineThreads = 128;
constexpr int kCombineEach = 4;  // columns a thread
template <class T>
constexpr int kCombineAhead = 16 /
                              static_cast<int>(sizeof(T));  // results whose loads are under way

// One choice's result; only the device knows whether its place is a multiple of four columns.
template <bool aligned, class T>
__device__ __forceinline__ Pack<T, kCombineEach> load_result(const Combine& a, const T* results,
                                                             int64_t choice, int64_t column) {
  const int64_t offset = load(a.result_offset + choice);
  const T* from = results + offset + column;
  const int64_t left = a.hidden_size - column;
  if (aligned && offset % kCombineEach == 0) return load_pack<kCombineEach, true>(from, left);
  return load_pack<kCombineEach, false>(from, left);
}

template <bool aligned, class T>
__device__ __forceinline__ Pack<float, kCombineEach> weighted_sum(const Combine& a,
                                                                  const T* results, int64_t token,
                                                                  int64_t column) {
  const int64_t end = (token + 1) * a.top_k;
  Pack<float, kCombineEach> total = {};
  for (int64_t first = token * a.top_k; first < end; first += kCombineAhead<T>) {
    Pack<T, kCombineEach> result[kCombineAhead<T>];
    for (int k = 0; k < kCombineAhead<T>; ++k) {
      if (first + k < end) result[k] = load_result<aligned>(a, results, first + k, column);
    }
    for (int k = 0; k < kCombineAhead<T>; ++k) {
      if (first + k >= end) continue;
      const float weight = load(a.weights + first + k);
      for (int i = 0; i < kCombineEach; ++i) {
        total.at[i] = fma_exact(weight, widened(result[k].at[i]), total.at[i]);
      }
    }
  }
  return total;
}

// `results` are a's in their own form.
template <bool aligned, class T>
__global__ void combine_kernel(Combine a, const T* results) {
  const int64_t token = blockIdx.x;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.y) * kCombineThreads + static_cast<int64_t>(threadIdx.x)) *
      kCombineEach;
  if (column >= a.hidden_size) return;
  const int64_t left = a.hidden_size - column, at = token * a.hidden_size + column;
  auto out = load_pack<kCombineEach, aligned>(a.residual + at, left);
  auto total = weighted_sum<aligned>(a, results, token, column);
  if (a.shared != nullptr) {
    const float gate = a.shared_gate == nullptr ? 1.0f : load(a.shared_gate + token);
    const auto shared = load_pack<kCombineEach, aligned>(a.shared + at, left);
    for (int i = 0; i < kCombineEach; ++i) total.at[i] = total.at[i] + shared.at[i] * gate;
  }
  for (int i = 0; i < kCombineEach; ++i) out.at[i] = out.at[i] + total.at[i];
  store_pack<kCombineEach, aligned>(a.out + at, out, left);
}

namespace {

template <class T>
void launch_combine(const Combine& a, const T* results, cudaStream_t stream) {
  const bool aligned = aligned_to(16, {a.residual, results, a.shared, a.out},
                                  {a.hidden_size * static_cast<int64_t>(sizeof(float))});
  launch(aligned ? combine_kernel<true, T> : combine_kernel<false, T>,
         {.blocks = dim3(blocks_for(a.num_tokens, 1),
                         blocks_for(a.hidden_size, kCombineThreads * kCombineEach)),
          .threads = kCombineThreads,
          .stream = stream},
         a, results);
}

}  // namespace

void combine(const Combine& a, cudaStream_t stream) {
  if (a.results != nullptr) {
    launch_combine(a, a.results, stream);
  } else {
    launch_combine(a, a.results_bf16, stream);
  }
}

}  // namespace colibri::cuda
