// Runs of neighbouring numbers that a thread moves in one access of up to 16 bytes.
#pragma once

#include <initializer_list>

#include "kernels/cuda/intrinsics.cuh"
#include "kernels/cuda/order.cuh"

namespace colibri::cuda {

template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

// The pack at p. Not `aligned`: element by element, those from `count` on are zeros and not read.
template <int n, bool aligned, class T>
__device__ __forceinline__ Pack<T, n> load_pack(const T* p, int64_t count) {
  if constexpr (aligned) {
    return load(reinterpret_cast<const Pack<T, n>*>(p));
  } else {
    Pack<T, n> pack;
    for (int i = 0; i < n; ++i) pack.at[i] = i < count ? load(p + i) : T{};
    return pack;
  }
}
template <int n, bool aligned, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, n>& pack, int64_t count) {
  if constexpr (aligned) {
    store(reinterpret_cast<Pack<T, n>*>(p), pack);
  } else {
    for (int i = 0; i < n; ++i) {
      if (i < count) store(p + i, pack.at[i]);
    }
  }
}

// A number of a table or of the KV cache as f32, and an f32 as such a number.
__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(uint16_t x) { return from_bf16(x); }
__device__ __forceinline__ void narrow_to(float x, float& out) { out = x; }
__device__ __forceinline__ void narrow_to(float x, uint16_t& out) { out = to_bf16(x); }

// Whether all pointers and distances (in bytes) are multiples of `bytes`.
inline bool aligned_to(int64_t bytes, std::initializer_list<const void*> pointers,
                       std::initializer_list<int64_t> distances) {
  for (const void* p : pointers) {
    if (reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) != 0) return false;
  }
  for (const int64_t distance : distances) {
    if (distance % bytes != 0) return false;
  }
  return true;
}

}  // namespace colibri::cuda
