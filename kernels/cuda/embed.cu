// Embedding: rows of a table, widened. Bound by memory: a few rows, read once. Blocks go along a
// row first; a thread takes 16 bytes of the table.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kEmbedThreads = 128;

template <class T, bool aligned>
__global__ void embed_kernel(EmbedRows a) {
  constexpr int kEach = 16 / sizeof(T);
  const int64_t width = a.table.cols, column = (static_cast<int64_t>(blockIdx.y) * kEmbedThreads +
                                                static_cast<int64_t>(threadIdx.x)) *
                                               kEach;
  if (column >= width) return;
  const int64_t token = blockIdx.x;
  const T* row = static_cast<const T*>(a.table.data) + load(a.ids + token) * width;
  const auto values = load_pack<kEach, aligned>(row + column, width - column);
  float* out = a.out + token * width + column;
  for (int i = 0; i < kEach; i += 4) {
    Pack<float, 4> four;
    for (int j = 0; j < 4; ++j) four.at[j] = widened(values.at[i + j]);
    store_pack<4, aligned>(out + i, four, width - column - i);
  }
}

template <class T>
void launch_embed(const EmbedRows& a, cudaStream_t stream) {
  const Grid grid = {.blocks = dim3(blocks_for(a.num_tokens, 1),
                                    blocks_for(a.table.cols, kEmbedThreads * 16 /
                                                                 static_cast<int64_t>(sizeof(T)))),
                     .threads = kEmbedThreads,
                     .stream = stream};
  const int64_t row_bytes = a.table.cols * static_cast<int64_t>(sizeof(T));
  const bool aligned = aligned_to(16, {a.table.data, a.out}, {row_bytes});
  launch(aligned ? embed_kernel<T, true> : embed_kernel<T, false>, grid, a);
}

void embed(const EmbedRows& a, cudaStream_t stream) {
  if (a.table.dtype == DType::kF32) {
    launch_embed<float>(a, stream);
  } else {
    launch_embed<uint16_t>(a, stream);
  }
}

}  // namespace colibri::cuda
