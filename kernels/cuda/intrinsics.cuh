// What kernels ask of the hardware beyond plain C++, each with one meaning on a GPU and on the
// simulated device. Two files define it: kernels/cuda/ptx/device_intrinsics.cuh for nvcc,
// tests/simulated_device/include/device_intrinsics.cuh for the host's compiler; the include path
// chooses. Kernels touch global and shared memory only through load and store, so that the
// simulated device can count bytes, sectors and bank conflicts.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace colibri::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned int kFullWarp = 0xFFFFFFFFu;

// Global memory. T has 1, 2, 4, 8 or 16 bytes, at an address aligned to them.
template <class T>
__device__ T load(const T* p);
template <class T>
__device__ void store(T* p, T value);
// For data that is read once in a launch (weights): does not push other data out of the caches.
template <class T>
__device__ T load_once(const T* p);
// *p |= bits, as one step for all threads of the device.
__device__ void set_bits(uint32_t* p, uint32_t bits);
// For a word that the host reads while the device works: whoever sees the value, on any processor,
// sees all that this thread saw before.
__device__ void store_for_host(uint64_t* p, uint64_t value);

// This block's dynamic shared memory as one struct, at least 16-byte aligned. A kernel has one.
template <class T>
__device__ T& shared_as();
template <class T>
__device__ T load_shared(const T* p);
template <class T>
__device__ void store_shared(T* p, T value);
// *p += value in one step, for all threads of the device or of the block; gives what was there.
__device__ int atomic_add(int* p, int value);
__device__ int atomic_add_shared(int* p, int value);

// Lanes of `mask` meet; each gets `value` of lane (own lane ^ lane_mask), or of lane `source`. T
// has 4 bytes. Lanes asked must be in the mask.
template <class T>
__device__ T shuffle_xor(T value, int lane_mask, unsigned int mask = kFullWarp);
template <class T>
__device__ T shuffle(T value, int source, unsigned int mask = kFullWarp);
// Bit l is lane l's predicate.
__device__ unsigned int ballot(bool predicate, unsigned int mask = kFullWarp);

// x * y + z, rounded once.
__device__ float fma_exact(float x, float y, float z);
// Exactly rounded f32 square root and division; nearest integer, ties to even.
__device__ float square_root(float x);
__device__ float divide(float x, float y);
__device__ int round_to_int(float x);

__device__ uint32_t float_bits(float x);
__device__ float float_from_bits(uint32_t bits);
// How many bits are set.
__device__ int count_bits(uint32_t bits);
// The f16 with these bits.
__device__ float half_to_float(uint16_t bits);

// A thread's copies from global to shared memory that go on while it works. What was copied arrives
// at some time between copy() and the wait() for its batch; other threads see it after a barrier
// that follows the wait. A kernel has waited for all of them before it ends.
//   copy<bytes>(to, from, there)  4, 8 or 16 bytes at addresses aligned to them; zeros when not
//                                 `there`, and `from` is then not read. Caches keep out of the way.
//   close_batch()                 the copies since the last one form a batch
//   wait<newest>()                until all batches but the `newest` last ones have arrived
class AsyncCopies;

// Warp-wide matrix products D = A B + D; fragments as PTX lays them out for mma.sync, g = lane / 4,
// q = lane % 4. All 32 lanes call it.
//   m16n8k32 s8: A 16 x 32, a[i] bytes are A[g + 8 (i & 1)][16 (i >> 1) + 4 q + 0..3];
//                B 32 x 8, b[i] bytes are B[16 i + 4 q + 0..3][g];
//                D 16 x 8 int32, d[i] is D[g + 8 (i >> 1)][2 q + (i & 1)]. Exact.
//   m16n8k16 bf16: A 16 x 16, a[i] halves are A[g + 8 (i & 1)][8 (i >> 1) + 2 q + 0..1];
//                B 16 x 8, b[i] halves are B[8 i + 2 q + 0..1][g];
//                D f32 as above. The order of the sum over k inside one call is the hardware's.
__device__ void mma_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
__device__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
// D = A B + c with every element of C the same.
__device__ void mma_s8_from(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int c);

}  // namespace colibri::cuda

#include <device_intrinsics.cuh>
