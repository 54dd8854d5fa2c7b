// Which rows a block of a grouped product works on. Only the GPU knows how many rows each group
// has, so the grid has as many blocks of rows as there could be, and each block looks for its own;
// surplus ones leave.
#pragma once

#include "kernels/cuda/intrinsics.cuh"

namespace colibri::cuda {

struct alignas(16) RowBlock {
  int32_t group;  // -1: none
  int32_t first;  // pair
  int32_t count;  // 1 .. rows of a block
  int32_t padding;
};

// At least the number of non-empty blocks of `rows` pairs, each of one group.
inline unsigned int most_row_blocks(int64_t num_pairs, int64_t num_groups, int64_t rows) {
  const int64_t groups = num_pairs < num_groups ? num_pairs : num_groups;
  return static_cast<unsigned int>(groups + num_pairs / rows);
}

// Writes block `idx` of the groups' blocks of `rows` pairs to `found` in shared memory. Called by
// one whole warp; others see it after a barrier. Cost: two loads for every 32 groups before it.
__device__ __forceinline__ void find_row_block(const int32_t* group_begin, int num_groups, int rows,
                                               int idx, RowBlock* found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int before = 0;  // blocks of earlier groups
  for (int base = 0; base < num_groups; base += kWarpSize) {
    const int group = base + lane;
    const int first = group < num_groups ? load(group_begin + group) : 0;
    const int end = group < num_groups ? load(group_begin + group + 1) : 0;
    const int blocks = (end - first + rows - 1) / rows;
    int up_to_here = blocks;
    for (int step = 1; step < kWarpSize; step *= 2) {
      const int below = shuffle(up_to_here, lane - step);
      if (lane >= step) up_to_here += below;
    }
    const int mine = idx - before - (up_to_here - blocks);
    if (mine >= 0 && mine < blocks) {
      const int at = first + mine * rows;
      store_shared(found, RowBlock{group, at, end - at < rows ? end - at : rows, 0});
    }
    before += shuffle(up_to_here, kWarpSize - 1);
    if (idx < before) return;
  }
  if (lane == 0) store_shared(found, RowBlock{-1, 0, 0, 0});
}

}  // namespace colibri::cuda
