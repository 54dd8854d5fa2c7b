// QDOT (kernels/op_types.h) of a block's panels with up to 64 rows, on tensor cores with the CPU's
// bits: one mma m16n8k32 is one group of a panel times eight rows, exact in int32, and every output
// then goes on with its own chain of fma, groups ascending. The sums start at the bits of 1.5 *
// 2^23, so that the result read as a float needs one subtraction instead of a conversion.
//
// A warp owns a panel (16 outputs), for all rows: a weight is read from memory once a call for up
// to 64 rows. What bounds it with few rows is memory: an H200 delivers 4.8 TB/s after about 0.7 us,
// so 3.4 MB must be under way at once, 25 KB for each of 132 multiprocessors. Codes, scales and
// rows come by asynchronous copies through a ring of stages of four groups each, of which three
// blocks of four warps fit a multiprocessor. An expert of Qwen3-30B-A3B has 24 such blocks for gate
// and up and 32 for down, one of DeepSeek-V3 64 and 112, so a busy expert alone does not fill an
// H200: a block with up to eight rows, whose stages are small, has more of them, and 5 * 8.5 KB
// (q8) or 10 * 4.5 KB (q4) of weights under way. With up to 64 rows it is 2 * 8.5 KB or 3 * 4.5 KB.
// One barrier a stage. With 64 rows and more (a block for every 64 rows) the chains are the limit:
// twelve instructions for the 8192 operations of an mma.
#pragma once

#include "base/quantised.h"
#include "kernels/cuda/intrinsics.cuh"

namespace colibri::cuda {

inline constexpr int kTileRows = 64;
inline constexpr int kFewTileRows = 8;
inline constexpr int kStageGroups = 4;
inline constexpr int kBlocksTogether = 3;  // on a multiprocessor
inline constexpr int kGroupBytes = static_cast<int>(kGroup);
inline constexpr int kPanel = static_cast<int>(kPanelRows);

// A row's part of a stage: codes of four groups, and its four scales in one of two places, so that
// neither the codes of four rows nor the scales of every second row share a bank.
inline constexpr int kStageRowBytes = kStageGroups * kGroupBytes + 32;
__device__ __forceinline__ int scales_of_stage_row(int row) {
  return row * kStageRowBytes + kStageGroups * kGroupBytes + 16 * (row >> 2 & 1);
}

template <DType dtype>
inline constexpr int kCodeBytes = (dtype == DType::kQ4 ? kPanel / 2 : kPanel) * kGroupBytes;

// A block that multiplies up to num_rows rows.
template <DType dtype, int warps, int num_rows, int num_stages>
struct QuantisedShape {
  static constexpr DType kDType = dtype;
  static constexpr int kWarps = warps;
  static constexpr int kRowTiles = num_rows / 8;
  static constexpr int kStages = num_stages;
  struct alignas(16) Stage {
    unsigned char codes[warps][kStageGroups * kCodeBytes<dtype>];
    uint16_t scales[warps][kStageGroups][kPanel];
    unsigned char rows[num_rows * kStageRowBytes];
  };
  using Sums = float[kRowTiles][4];
};
template <DType dtype, int warps>
using FewRowsShape = QuantisedShape<dtype, warps, kFewTileRows, dtype == DType::kQ4 ? 12 : 7>;
template <DType dtype, int warps>
using TileShape = QuantisedShape<dtype, warps, kTileRows, dtype == DType::kQ4 ? 5 : 4>;

template <DType dtype, int warps>
struct QuantisedStages {
  using FewRows = FewRowsShape<dtype, warps>;
  using Tile = TileShape<dtype, warps>;
  union {
    typename FewRows::Stage few[FewRows::kStages];
    typename Tile::Stage tile[Tile::kStages];
  };
  const unsigned char* row[kTileRows];  // quantised rows in global memory

  __device__ __forceinline__ typename FewRows::Stage* stages(FewRows) { return few; }
  __device__ __forceinline__ typename Tile::Stage* stages(Tile) { return tile; }
};

// Calls `block` with the shape for so many rows, 64 at most.
template <DType dtype, int warps, class Block>
__device__ __forceinline__ void with_shape(int num_rows, const Block& block) {
  if (num_rows <= kFewTileRows) {
    block(FewRowsShape<dtype, warps>{});
  } else {
    block(TileShape<dtype, warps>{});
  }
}

// What a block multiplies; `panel` is this warp's own, null where there is none.
struct QuantisedTile {
  const unsigned char* panel;
  int groups;
  int num_rows;
};

// Copies of one stage. Aligned: rows lie on 16 bytes and groups come by four.
template <class Shape, bool aligned>
struct StageCopies {
  static constexpr DType kDType = Shape::kDType;
  static constexpr int kThreads = Shape::kWarps * kWarpSize;
  AsyncCopies& copies;
  typename Shape::Stage& to;
  int lane, warp, thread;

  __device__ __forceinline__ void weights(const QuantisedTile& a, int first, int count) {
    if (a.panel == nullptr) return;
    const unsigned char* scales = a.panel + first * kPanel * 2;
    if (lane < 2 * count) {
      copies.template copy<16>(&to.scales[warp][0][lane * 8], scales + lane * 16, true);
    }
    const unsigned char* codes = a.panel + panel_scale_bytes(int64_t{a.groups} * kGroup) +
                                 static_cast<int64_t>(first) * kCodeBytes<kDType>;
#pragma unroll
    for (int i = 0; i < kStageGroups * kCodeBytes<kDType>; i += kWarpSize * 16) {
      const int at = i + lane * 16;
      if (at < count * kCodeBytes<kDType>) {
        copies.template copy<16>(&to.codes[warp][at], codes + at, true);
      }
    }
  }

  __device__ __forceinline__ void rows(const QuantisedTile& a, const unsigned char* const* row,
                                       int first, int count) {
    if constexpr (aligned) {
      constexpr int kParts = kStageGroups * kGroupBytes / 16;
      const int part = thread % kParts * 16;
      for (int r = thread / kParts; r < a.num_rows; r += kThreads / kParts) {
        copies.template copy<16>(to.rows + r * kStageRowBytes + part,
                                 load_shared(row + r) + first * kGroupBytes + part, true);
      }
      for (int r = thread; r < a.num_rows; r += kThreads) {
        copies.template copy<16>(to.rows + scales_of_stage_row(r),
                                 load_shared(row + r) + a.groups * kGroupBytes + first * 4, true);
      }
    } else {
      const int words = count * 9;  // eight of codes, one scale for each group
      for (int i = thread; i < a.num_rows * words; i += kThreads) {
        const int r = i / words, word = i % words, scale = word - count * 8;
        const unsigned char* from = load_shared(row + r);
        if (scale < 0) {
          copies.template copy<4>(to.rows + r * kStageRowBytes + word * 4,
                                  from + first * kGroupBytes + word * 4, true);
        } else {
          copies.template copy<4>(to.rows + scales_of_stage_row(r) + scale * 4,
                                  from + a.groups * kGroupBytes + (first + scale) * 4, true);
        }
      }
    }
  }
};

inline constexpr int kDotBase = 0x4B400000;  // the bits of 1.5 * 2^23
inline constexpr float kDotBaseValue = 12582912.0f;

// The int32 sum of an mma as a float, exactly. q4's codes stand in the high half of their bytes, so
// the sum is sixteen times as large.
template <DType dtype>
__device__ __forceinline__ float dot_value(int sum) {
  const float value = float_from_bits(static_cast<uint32_t>(sum));
  if constexpr (dtype == DType::kQ4) {
    return fma_exact(value, 0.0625f, -kDotBaseValue * 0.0625f);
  } else {
    return value - kDotBaseValue;
  }
}

// q4's words of outputs g and g + 8 as mma takes them.
__device__ __forceinline__ void unpack_q4(uint32_t low_output, uint32_t high_output,
                                          uint32_t (&a)[4]) {
  a[0] = low_output << 4 & 0xF0F0F0F0u, a[2] = low_output & 0xF0F0F0F0u;
  a[1] = high_output << 4 & 0xF0F0F0F0u, a[3] = high_output & 0xF0F0F0F0u;
}

// This lane's part of `count` groups of a stage's panel from group `first` on, as mma takes it
// (kernels/cuda/packing.h). `alone`: the one group of q4 that has no second.
template <DType dtype, int count>
__device__ __forceinline__ void load_codes(const unsigned char* codes, int first, bool alone,
                                           uint32_t (&a)[count][4]) {
  const int lane = static_cast<int>(threadIdx.x);
  if constexpr (dtype == DType::kQ8) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const unsigned char* at = codes + (first + i) * kCodeBytes<dtype> + lane * 16;
      const uint4 v = load_shared(reinterpret_cast<const uint4*>(at));
      a[i][0] = v.x, a[i][1] = v.y, a[i][2] = v.z, a[i][3] = v.w;
    }
  } else if constexpr (count % 2 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 2) {
      const unsigned char* at = codes + (first + i) * kCodeBytes<dtype> + lane * 16;
      const uint4 v = load_shared(reinterpret_cast<const uint4*>(at));
      unpack_q4(v.x, v.y, a[i]);
      unpack_q4(v.z, v.w, a[i + 1]);
    }
  } else {
    static_assert(count == 1);
    const unsigned char* at =
        codes + first / 2 * 2 * kCodeBytes<dtype> + (alone ? lane * 8 : lane * 16 + first % 2 * 8);
    const uint2 v = load_shared(reinterpret_cast<const uint2*>(at));
    unpack_q4(v.x, v.y, a[0]);
  }
}

// `count` groups of a stage from group `first` on join the sums.
template <class Shape, int count>
__device__ __forceinline__ void add_groups(const typename Shape::Stage& stage, int first, int tiles,
                                           bool alone, typename Shape::Sums& sums) {
  constexpr DType dtype = Shape::kDType;
  const int warp = static_cast<int>(threadIdx.y);
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, q = lane % 4;
  uint32_t a[count][4];
  load_codes<dtype, count>(stage.codes[warp], first, alone, a);
  float scale[count][2];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    scale[i][0] = half_to_float(load_shared(&stage.scales[warp][first + i][g]));
    scale[i][1] = half_to_float(load_shared(&stage.scales[warp][first + i][g + 8]));
  }
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; ++t) {
    if (t >= tiles) break;
    const unsigned char* codes =
        stage.rows + (t * 8 + g) * kStageRowBytes + first * kGroupBytes + q * 8;
    float row_scale[2][count];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const unsigned char* at = stage.rows + scales_of_stage_row(t * 8 + 2 * q + j) + first * 4;
      if constexpr (count == 4) {
        const float4 v = load_shared(reinterpret_cast<const float4*>(at));
        row_scale[j][0] = v.x, row_scale[j][1] = v.y, row_scale[j][2] = v.z, row_scale[j][3] = v.w;
      } else {
        row_scale[j][0] = load_shared(reinterpret_cast<const float*>(at));
      }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const uint2 v = load_shared(reinterpret_cast<const uint2*>(codes + i * kGroupBytes));
      const uint32_t b[2] = {v.x, v.y};
      int dot[4];
      mma_s8_from(dot, a[i], b, kDotBase);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sums[t][e] =
            fma_exact(dot_value<dtype>(dot[e]), scale[i][e / 2] * row_scale[e % 2][i], sums[t][e]);
      }
    }
  }
}

// Sums [t][e] of this lane are of row 8 t + 2 q + e % 2 and output g + 8 (e / 2) of the warp's
// panel, lane = 4 g + q. The rows' addresses are in shared.row, behind a barrier. Ends with one.
template <class Shape, bool aligned>
__device__ __forceinline__ void multiply_tile(const QuantisedTile& a,
                                              QuantisedStages<Shape::kDType, Shape::kWarps>& shared,
                                              typename Shape::Sums& sums) {
  constexpr int kBuffers = Shape::kStages;
  typename Shape::Stage* stages = shared.stages(Shape{});
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int tiles = (a.num_rows + 7) / 8, end = (a.groups + kStageGroups - 1) / kStageGroups;
  AsyncCopies copies;
  const auto groups_of = [&](int s) {
    const int left = a.groups - s * kStageGroups;
    return left < kStageGroups ? left : kStageGroups;
  };
  const auto fetch = [&](int s, int buffer) {
    if (s < end) {
      StageCopies<Shape, aligned> stage{copies, stages[buffer], lane, warp,
                                        warp * kWarpSize + lane};
      stage.weights(a, s * kStageGroups, groups_of(s));
      stage.rows(a, shared.row, s * kStageGroups, groups_of(s));
    }
    copies.close_batch();
  };
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; ++t) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[t][e] = 0;
  }
  for (int s = 0; s < kBuffers - 1; ++s) fetch(s, s);
  int buffer = 0, free_buffer = kBuffers - 1;
  for (int s = 0; s < end; ++s) {
    copies.template wait<kBuffers - 2>();
    __syncthreads();
    fetch(s + kBuffers - 1, free_buffer);
    free_buffer = buffer;
    const auto& stage = stages[buffer];
    buffer = buffer + 1 == kBuffers ? 0 : buffer + 1;
    if (a.panel == nullptr) continue;
    const int count = groups_of(s);
    if (count == kStageGroups) {
      add_groups<Shape, kStageGroups>(stage, 0, tiles, false, sums);
    } else {
      for (int i = 0; i < count; ++i) {
        const bool alone = i + 1 == count && count % 2 == 1;
        add_groups<Shape, 1>(stage, i, tiles, alone, sums);
      }
    }
  }
  copies.template wait<0>();
  __syncthreads();
}

}  // namespace colibri::cuda
