// How the last product of the experts' feed-forward stores its sums: f32 as they are, or rounded to
// bf16. In all its kernels lane 4 g + q of a warp has outputs g and g + 8 of sixteen neighbours, of
// the same row as the other lanes of q. Their f32 fill a sector in one store; for bf16 every second
// lane of a row swaps one of its two outputs, so that all of a lane's bytes are neighbours and a
// row's sixteen outputs are one sector.
#pragma once

#include "kernels/cuda/intrinsics.cuh"
#include "kernels/cuda/order.cuh"
#include "kernels/op_types.h"

namespace colibri::cuda {

// Where a lane's row goes. Lanes without a row have one of their own that does not exist.
struct ResultRow {
  int64_t offset;
  bool exists;
};
__device__ __forceinline__ ResultRow result_row(const GroupedFfn& a, int64_t pair, bool exists) {
  return {exists ? load(a.out_offset + pair) : 0, exists};
}

// Outputs n and n + 8. Called by a whole warp.
__device__ __forceinline__ void store_results(const GroupedFfn& a, const ResultRow& row, int64_t n,
                                              float low, float high) {
  if (a.out_bf16 == nullptr) {
    if (!row.exists) return;
    float* out = a.out + row.offset + n;
    if (n < a.hidden_size) store(out, low);
    if (n + 8 < a.hidden_size) store(out + 8, high);
    return;
  }
  const bool is_odd = (threadIdx.x & 4) != 0;
  const float received = shuffle_xor(is_odd ? low : high, 4);
  if (!row.exists) return;
  const int64_t first = is_odd ? n + 7 : n;
  const uint32_t left = to_bf16(is_odd ? received : low);
  const uint32_t right = to_bf16(is_odd ? high : received);
  uint16_t* out = a.out_bf16 + row.offset + first;
  if (first + 1 < a.hidden_size && reinterpret_cast<uintptr_t>(out) % sizeof(uint32_t) == 0) {
    store(reinterpret_cast<uint32_t*>(out), left | right << 16);
    return;
  }
  if (first < a.hidden_size) store(out, static_cast<uint16_t>(left));
  if (first + 1 < a.hidden_size) store(out + 1, static_cast<uint16_t>(right));
}

}  // namespace colibri::cuda
