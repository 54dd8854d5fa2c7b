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

inline constexpr int kGroupsPerLane = 4;
inline constexpr int kGroupsAtOnce = kWarpSize * kGroupsPerLane;

// Writes block `idx` of the groups' blocks of `rows` pairs to `found` in shared memory. Called by
// one whole warp; others see it after a barrier. Cost: one wait for memory for every 128 groups up
// to the block's own.
__device__ __forceinline__ void find_row_block(const int32_t* group_begin, int num_groups, int rows,
                                               int idx, RowBlock* found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int before = 0;  // blocks of earlier groups
  for (int base = 0; base < num_groups; base += kGroupsAtOnce) {
    const int first_group = base + lane * kGroupsPerLane;
    int begin[kGroupsPerLane + 1];
#pragma unroll
    for (int i = 0; i <= kGroupsPerLane; ++i) {
      const int group = first_group + i;
      begin[i] = load(group_begin + (group < num_groups ? group : num_groups));
    }
    int blocks = 0;
#pragma unroll
    for (int i = 0; i < kGroupsPerLane; ++i) blocks += (begin[i + 1] - begin[i] + rows - 1) / rows;
    int up_to_here = blocks;
    for (int step = 1; step < kWarpSize; step *= 2) {
      const int below = shuffle(up_to_here, lane - step);
      if (lane >= step) up_to_here += below;
    }
    int mine = idx - before - (up_to_here - blocks);
    const bool is_mine = mine >= 0 && mine < blocks;
#pragma unroll
    for (int i = 0; i < kGroupsPerLane; ++i) {
      const int of_group = (begin[i + 1] - begin[i] + rows - 1) / rows;
      if (is_mine && mine >= 0 && mine < of_group) {
        const int at = begin[i] + mine * rows, left = begin[i + 1] - at;
        store_shared(found, RowBlock{first_group + i, at, left < rows ? left : rows, 0});
      }
      mine -= of_group;
    }
    before += shuffle(up_to_here, kWarpSize - 1);
    if (idx < before) return;
  }
  if (lane == 0) store_shared(found, RowBlock{-1, 0, 0, 0});
}

}  // namespace colibri::cuda
