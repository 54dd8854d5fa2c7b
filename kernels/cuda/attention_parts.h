// How attention cut over the context passes tiles' partials from one kernel to the next.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/op_types.h"

namespace colibri::cuda {

// Partials of `num_tiles` tiles from `first_tile` on, in scratch: m and l of tile i, token t and
// head h at sums + 2 ((i T + t) heads + h), its o at values + ((i T + t) heads + h) * value_width.
struct AttentionParts {
  float* running = nullptr;  // [columns / kMergeColumns, T, heads, 2] running M and L
  float* sums = nullptr;
  float* values = nullptr;
  int64_t value_width = 0;  // value_dim rounded up to 16 bytes
  int64_t first_tile = 0;
  int64_t num_tiles = 0;
};

inline constexpr int kMergeColumns = 128;  // that one warp of the merge takes

// Merges the partials into the running state and `out`, in ascending order; divides rows that end.
void merge_attention(const Attention&, const AttentionParts&, cudaStream_t stream);

}  // namespace colibri::cuda
