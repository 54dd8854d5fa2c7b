// What code inside a kernel sees on the simulated device: CUDA's words, the indices of its thread,
// and the places where a thread waits for others.
#pragma once

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct uint3 {
  unsigned int x, y, z;
};
struct dim3 {
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
  unsigned int x, y, z;
};
struct alignas(8) uint2 {
  unsigned int x, y;
};
struct alignas(16) uint4 {
  unsigned int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};

namespace colibri_sim {

// Lane of the running thread in its warp.
int lane();

// Base of this block's dynamic shared memory.
void* shared_memory();

// __syncthreads: every thread of the block must come.
void sync_block();

// All lanes named in `mask` meet: each hands in `bytes` (at most 64) at `mine`; the result is the
// table of the warp's 32 entries, 64 bytes apart, valid until this lane's next meeting. Entries of
// lanes outside the mask are not to be read.
const unsigned char* meet_warp(unsigned int mask, const void* mine, size_t bytes);
inline constexpr size_t kMeetingBytes = 64;

// Access to memory by the running thread, counted by kernel: the n-th access of a warp's lanes from
// one place in the code counts as one instruction. Faults: memory that the device cannot touch, an
// address that is no multiple of `bytes`, and (but for atomics) a race with another thread.
enum class Access : unsigned char {
  kGlobalLoad,
  kGlobalStore,
  kGlobalAtomic,
  kSharedLoad,
  kSharedStore,
  kSharedAtomic,
};
void count_access(Access access, const void* address, size_t bytes);

// Ends the kernel with cudaErrorLaunchFailure; the message names kernel, block and thread.
[[noreturn]] void fail_kernel(const char* reason);

}  // namespace colibri_sim

// Of the running thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

inline void __syncthreads() { ::colibri_sim::sync_block(); }
inline void __syncwarp(unsigned int mask = 0xFFFFFFFFu) {
  ::colibri_sim::meet_warp(mask, nullptr, 0);
}
