// kernels/cuda/intrinsics.cuh for the simulated device.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

namespace colibri::cuda {

using colibri_sim::Access;
using colibri_sim::kMeetingBytes;

template <class T>
__forceinline__ T load(const T* p) {
  colibri_sim::count_access(Access::kGlobalLoad, p, sizeof(T));
  return *p;
}
template <class T>
__forceinline__ void store(T* p, T value) {
  colibri_sim::count_access(Access::kGlobalStore, p, sizeof(T));
  *p = value;
}
template <class T>
__forceinline__ T load_once(const T* p) {
  return load(p);
}
__forceinline__ void set_bits(uint32_t* p, uint32_t bits) {
  colibri_sim::count_access(Access::kGlobalAtomic, p, sizeof bits);
  __atomic_fetch_or(p, bits, __ATOMIC_RELAXED);
}
__forceinline__ void store_for_host(uint64_t* p, uint64_t value) {
  colibri_sim::count_access(Access::kGlobalStore, p, sizeof value);
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

template <class T>
__forceinline__ T& shared_as() {
  return *static_cast<T*>(colibri_sim::shared_memory());
}
template <class T>
__forceinline__ T load_shared(const T* p) {
  colibri_sim::count_access(Access::kSharedLoad, p, sizeof(T));
  return *p;
}
template <class T>
__forceinline__ void store_shared(T* p, T value) {
  colibri_sim::count_access(Access::kSharedStore, p, sizeof(T));
  *p = value;
}
__forceinline__ int atomic_add(int* p, int value) {
  colibri_sim::count_access(Access::kGlobalAtomic, p, sizeof(int));
  return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}
__forceinline__ int atomic_add_shared(int* p, int value) {
  colibri_sim::count_access(Access::kSharedAtomic, p, sizeof(int));
  return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}

template <class T>
inline T entry_of(const unsigned char* table, int lane) {
  T value;
  std::memcpy(&value, table + static_cast<size_t>(lane) * kMeetingBytes, sizeof value);
  return value;
}
template <class T>
inline T shuffle(T value, int source, unsigned int mask) {
  static_assert(sizeof(T) == 4);
  return entry_of<T>(colibri_sim::meet_warp(mask, &value, sizeof value), source & 31);
}
template <class T>
inline T shuffle_xor(T value, int lane_mask, unsigned int mask) {
  return shuffle(value, colibri_sim::lane() ^ lane_mask, mask);
}
inline unsigned int ballot(bool predicate, unsigned int mask) {
  const unsigned char* table = colibri_sim::meet_warp(mask, &predicate, sizeof predicate);
  unsigned int bits = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1u) != 0 && entry_of<bool>(table, lane)) bits |= 1u << lane;
  }
  return bits;
}

inline float fma_exact(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float square_root(float x) { return __builtin_sqrtf(x); }
inline float divide(float x, float y) { return x / y; }
inline int round_to_int(float x) { return static_cast<int>(std::nearbyint(x)); }
inline uint32_t float_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float float_from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline int count_bits(uint32_t bits) { return __builtin_popcount(bits); }
inline float half_to_float(uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, sizeof half);
  return static_cast<float>(half);
}

struct MmaOperands {
  uint32_t a[4];
  uint32_t b[2];
};

inline const unsigned char* share_operands(const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MmaOperands mine;
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  return colibri_sim::meet_warp(kFullWarp, &mine, sizeof mine);
}

inline void mma_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const unsigned char* table = share_operands(a, b);
  const int g = colibri_sim::lane() / 4, q = colibri_sim::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + 8 * (i >> 1), col = 2 * q + (i & 1);
    for (int k = 0; k < 32; ++k) {
      const int owner = k % 16 / 4;  // which lane of four holds this k
      const auto x = entry_of<MmaOperands>(table, row % 8 * 4 + owner);
      const auto y = entry_of<MmaOperands>(table, col * 4 + owner);
      const auto a_byte = static_cast<int8_t>(x.a[row / 8 + 2 * (k / 16)] >> 8 * (k % 4));
      const auto b_byte = static_cast<int8_t>(y.b[k / 16] >> 8 * (k % 4));
      d[i] += a_byte * b_byte;
    }
  }
}

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const unsigned char* table = share_operands(a, b);
  const int g = colibri_sim::lane() / 4, q = colibri_sim::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + 8 * (i >> 1), col = 2 * q + (i & 1);
    for (int k = 0; k < 16; ++k) {
      const int owner = k % 8 / 2;
      const auto x = entry_of<MmaOperands>(table, row % 8 * 4 + owner);
      const auto y = entry_of<MmaOperands>(table, col * 4 + owner);
      const uint32_t a_half = x.a[row / 8 + 2 * (k / 8)] >> 16 * (k % 2);
      const uint32_t b_half = y.b[k / 8] >> 16 * (k % 2);
      d[i] = fma_exact(float_from_bits(a_half << 16), float_from_bits(b_half << 16), d[i]);
    }
  }
}

inline void mma_s8_from(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int c) {
  for (int& element : d) element = c;
  mma_s8(d, a, b);
}

// Nothing arrives before the wait, so that a missing one shows.
class AsyncCopies {
 public:
  template <int bytes>
  __forceinline__ void copy(void* to, const void* from, bool there) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    if (reinterpret_cast<uintptr_t>(to) % bytes != 0) {
      colibri_sim::fail_kernel("copy() to an address that is not aligned");
    }
    if (there && reinterpret_cast<uintptr_t>(from) % bytes != 0) {
      colibri_sim::fail_kernel("copy() from an address that is not aligned");
    }
    if (there) colibri_sim::count_access(Access::kGlobalLoad, from, bytes);
    colibri_sim::count_access(Access::kSharedStore, to, bytes);
    copies_.push_back({to, there ? from : nullptr, bytes});
  }
  void close_batch() { batch_ends_.push_back(copies_.size()); }
  template <int newest>
  void wait() {
    if (batch_ends_.size() <= newest) return;
    const size_t batches = batch_ends_.size() - newest;
    const size_t count = batch_ends_[batches - 1];
    for (size_t i = 0; i < count; ++i) deliver(copies_[i]);
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(count));
    batch_ends_.erase(batch_ends_.begin(), batch_ends_.begin() + static_cast<ptrdiff_t>(batches));
    for (size_t& end : batch_ends_) end -= count;
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  static void deliver(const Copy& copy) {
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, copy.bytes);
    } else {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }
  std::vector<Copy> copies_;
  std::vector<size_t> batch_ends_;
};

}  // namespace colibri::cuda
