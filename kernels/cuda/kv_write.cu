// Writes each token's keys and values into its page. Bound by memory, a few rows a step; a block
// has one token and one kv head, a thread moves four numbers (16 bytes in) where they are aligned.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kKvThreads = 64;
constexpr int kKvEach = 4;

template <class T, bool aligned>
__device__ __forceinline__ void copy_to_cache(const float* from, int64_t width, T* to) {
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kKvEach; i < width;
       i += kKvThreads * kKvEach) {
    const auto values = load_pack<kKvEach, aligned>(from + i, width - i);
    Pack<T, kKvEach> kept;
    for (int j = 0; j < kKvEach; ++j) narrow_to(values.at[j], kept.at[j]);
    store_pack<kKvEach, aligned>(to + i, kept, width - i);
  }
}

template <class T, bool aligned>
__global__ void kv_write_kernel(KvWrite a, int64_t page_elements) {
  const KvLayout& layout = a.layout;
  const int64_t token = blockIdx.x, head = blockIdx.y;
  const int64_t position = load(&a.rows[token].position);
  const int32_t* pages = load(&a.rows[token].pages);
  T* page = static_cast<T*>(a.pool) + load(pages + position / kTile) * page_elements;
  const int64_t slot = head * kTile + position % kTile;
  copy_to_cache<T, aligned>(a.keys + token * a.key_stride + head * layout.key_dim, layout.key_dim,
                            page + slot * layout.key_dim);
  if (layout.shared_value) return;
  T* values = page + layout.num_kv_heads * kTile * layout.key_dim;
  copy_to_cache<T, aligned>(a.values + token * a.value_stride + head * layout.value_dim,
                            layout.value_dim, values + slot * layout.value_dim);
}

template <class T>
void launch_kv_write(const KvWrite& a, cudaStream_t stream) {
  const Grid grid = {
      .blocks = dim3(blocks_for(a.num_tokens, 1), static_cast<unsigned int>(a.layout.num_kv_heads)),
      .threads = kKvThreads,
      .stream = stream};
  const int64_t value_dim = a.layout.shared_value ? 0 : a.layout.value_dim;
  const bool aligned = aligned_to(16, {a.pool, a.keys, a.values},
                                  {a.layout.key_dim * 4, value_dim * 4, a.key_stride * 4,
                                   a.layout.shared_value ? 0 : a.value_stride * 4});
  launch(aligned ? kv_write_kernel<T, true> : kv_write_kernel<T, false>, grid, a,
         a.layout.page_elements());
}

void kv_write(const KvWrite& a, cudaStream_t stream) {
  if (a.layout.dtype == DType::kF32) {
    launch_kv_write<float>(a, stream);
  } else {
    launch_kv_write<uint16_t>(a, stream);
  }
}

}  // namespace colibri::cuda
