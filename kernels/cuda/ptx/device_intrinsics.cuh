// kernels/cuda/intrinsics.cuh for a GPU.
#pragma once

#include <cuda_fp16.h>

namespace colibri::cuda {

template <class T>
__device__ __forceinline__ T load(const T* p) {
  return *p;
}
template <class T>
__device__ __forceinline__ void store(T* p, T value) {
  *p = value;
}
template <class T>
__device__ __forceinline__ T load_once(const T* p) {
  return __ldcs(p);
}
__device__ __forceinline__ void set_bits(uint32_t* p, uint32_t bits) { atomicOr(p, bits); }
__device__ __forceinline__ void store_for_host(uint64_t* p, uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}

template <class T>
__device__ __forceinline__ T& shared_as() {
  extern __shared__ __align__(128) unsigned char colibri_shared_memory[];
  return *reinterpret_cast<T*>(colibri_shared_memory);
}
template <class T>
__device__ __forceinline__ T load_shared(const T* p) {
  return *p;
}
template <class T>
__device__ __forceinline__ void store_shared(T* p, T value) {
  *p = value;
}
__device__ __forceinline__ int atomic_add(int* p, int value) { return atomicAdd(p, value); }
__device__ __forceinline__ int atomic_add_shared(int* p, int value) { return atomicAdd(p, value); }

template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_mask, unsigned int mask) {
  return __shfl_xor_sync(mask, value, lane_mask);
}
template <class T>
__device__ __forceinline__ T shuffle(T value, int source, unsigned int mask) {
  return __shfl_sync(mask, value, source);
}
__device__ __forceinline__ unsigned int ballot(bool predicate, unsigned int mask) {
  return __ballot_sync(mask, predicate);
}

__device__ __forceinline__ float fma_exact(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ __forceinline__ float square_root(float x) { return __fsqrt_rn(x); }
__device__ __forceinline__ float divide(float x, float y) { return __fdiv_rn(x, y); }
__device__ __forceinline__ int round_to_int(float x) { return __float2int_rn(x); }
__device__ __forceinline__ uint32_t float_bits(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float float_from_bits(uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ int count_bits(uint32_t bits) { return __popc(bits); }
__device__ __forceinline__ float half_to_float(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}

__device__ __forceinline__ void mma_s8(int (&d)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_s8_from(int (&d)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2], int c) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c));
}

class AsyncCopies {
 public:
  template <int bytes>
  __device__ __forceinline__ void copy(void* to, const void* from, bool there) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    const int size = there ? bytes : 0;
    if constexpr (bytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"(shared), "l"(from), "r"(size)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                   :
                   : "r"(shared), "l"(from), "n"(bytes), "r"(size)
                   : "memory");
    }
  }
  __device__ __forceinline__ void close_batch() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int newest>
  __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(newest) : "memory");
  }
};

}  // namespace colibri::cuda
