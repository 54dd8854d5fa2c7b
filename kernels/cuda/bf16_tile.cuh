// Products of bf16 rows and bf16 weights on tensor cores. Every output has one f32 accumulator that
// takes its products by mma m16n8k16 in slices of 32 inputs, ascending, two calls a slice, whatever
// the number of rows, so that a row's bits depend on nothing but the row and the weights. Inside a
// slice lane q of four has inputs 8 q .. 8 q + 7, which it loads at once from the row-major
// matrices; the first call takes the lower four of each lane, the second the upper four.
//
// Three shapes of blocks, four warps each, with these same chains:
//   a tile     64 outputs x up to 8 rows, a warp has 16 outputs and all rows. Memory is the bound,
//              and often one busy expert has too few blocks for all multiprocessors, so a block has
//              as much under way as it has memory for: eight stages of 8 KB of weights.
//   few rows   64 outputs x up to 64 rows, the same with four stages under way in each of two
//              blocks of a multiprocessor, where 25 KB cover an H200's latency
//              (quantised_tile.cuh).
//   many rows  128 outputs x up to 128 rows, a warp has 64 x 64: sixteen loads of 16 bytes from
//              shared memory feed 64 mma, and two stages of 32 KB are under way.
// A block takes the first that its rows fit.
#pragma once

#include "kernels/cuda/intrinsics.cuh"

namespace colibri::cuda {

inline constexpr int kSliceInputs = 32;
inline constexpr int kStageInputs = 64;
inline constexpr int kStageSlices = kStageInputs / kSliceInputs;
inline constexpr int kChunkInputs = 8;  // 16 bytes
inline constexpr int kStageChunks = kStageInputs / kChunkInputs;
inline constexpr int kBf16Warps = 4;
inline constexpr int kBf16Threads = kBf16Warps * kWarpSize;
inline constexpr int kTileRows = 8;
inline constexpr int kFewRows = 64;
inline constexpr int kManyRows = 128;
inline constexpr int kFewOutputs = 64;

// Of a warp m_tiles of sixteen outputs and row_tiles of eight rows; warps_m: warps side by side
// along the outputs.
template <int m_tiles, int row_tiles, int warps_m, int num_stages>
struct Bf16Shape {
  static constexpr int kTiles = m_tiles;
  static constexpr int kRowTiles = row_tiles;
  static constexpr int kWarpsM = warps_m;
  static constexpr int kOutputs = 16 * m_tiles * warps_m;
  static constexpr int kRows = kTileRows * row_tiles * (kBf16Warps / warps_m);
  static constexpr int kStages = num_stages;
  struct alignas(16) Stage {
    uint4 weights[kOutputs][kStageChunks];
    uint4 rows[kRows][kStageChunks];
  };
  using Sums = float[m_tiles][row_tiles][4];
};
using OneTile = Bf16Shape<1, 1, 4, 10>;
using FewRows = Bf16Shape<1, 8, 4, 6>;
using ManyRows = Bf16Shape<4, 8, 2, 3>;
static_assert(OneTile::kRows == kTileRows && FewRows::kRows == kFewRows);
static_assert(ManyRows::kRows == kManyRows);
static_assert(OneTile::kOutputs == kFewOutputs && FewRows::kOutputs == kFewOutputs);

struct Bf16Stages {
  union {
    OneTile::Stage one[OneTile::kStages];
    FewRows::Stage few[FewRows::kStages];
    ManyRows::Stage many[ManyRows::kStages];
  };
  const uint16_t* row[kManyRows];  // rows in global memory

  __device__ __forceinline__ OneTile::Stage* stages(OneTile) { return one; }
  __device__ __forceinline__ FewRows::Stage* stages(FewRows) { return few; }
  __device__ __forceinline__ ManyRows::Stage* stages(ManyRows) { return many; }
};

// Where a chunk lies in its row: pairs of rows share the banks between them.
__device__ __forceinline__ int place_of_chunk(int row, int chunk) {
  return chunk ^ ((row & 1) << 2);
}

// What a block multiplies. Weight rows come to a warp by sixteen: of a thread's sixteenth the first
// is `weight`, the next ones lie weight_step elements on.
struct Bf16Tile {
  const uint16_t* weight;  // the thread's first row
  int64_t weight_step;
  int num_weights;  // how many of the thread's rows there are
  int64_t width;
  int num_rows;
};

// How many of `left` rows fall to the thread that has the first, every sixteenth, eight at most.
__device__ __forceinline__ int rows_of_thread(int64_t left) {
  if (left <= 0) return 0;
  return left > 7 * 16 ? 8 : static_cast<int>((left + 15) / 16);
}

// Sixteen bytes of a row from input k on, zeros past its end, on their way to shared memory.
template <bool aligned>
__device__ __forceinline__ void copy_chunk(AsyncCopies& copies, uint4* to, const uint16_t* row,
                                           int64_t k, int64_t width) {
  if constexpr (aligned) {
    copies.template copy<16>(to, row + k, k < width);
  } else {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t at = k + 2 * i;
      const uint32_t low = at < width ? load(row + at) : 0u;
      const uint32_t high = at + 1 < width ? load(row + at + 1) : 0u;
      pairs[i] = low | high << 16;
    }
    store_shared(to, uint4{pairs[0], pairs[1], pairs[2], pairs[3]});
  }
}

template <class Shape, bool aligned>
__device__ __forceinline__ void fetch_stage(AsyncCopies& copies, const Bf16Tile& a,
                                            const uint16_t* const* row, int64_t first,
                                            typename Shape::Stage& to) {
  constexpr int kRowsAtOnce = kBf16Threads / kStageChunks;
  static_assert(kRowsAtOnce == 16);
  const int thread = static_cast<int>(threadIdx.y) * kWarpSize + static_cast<int>(threadIdx.x);
  const int chunk = thread % kStageChunks, own = thread / kStageChunks;
  const int64_t k = first + chunk * kChunkInputs;
#pragma unroll
  for (int i = 0; i < Shape::kOutputs / kRowsAtOnce; ++i) {
    const int r = own + i * kRowsAtOnce;
    // A row that is not there has zeros.
    copy_chunk<aligned>(copies, &to.weights[r][place_of_chunk(r, chunk)],
                        a.weight + i * a.weight_step, k, i < a.num_weights ? a.width : 0);
  }
  for (int r = own; r < a.num_rows; r += kRowsAtOnce) {
    copy_chunk<aligned>(copies, &to.rows[r][place_of_chunk(r, chunk)], load_shared(row + r), k,
                        a.width);
  }
}

template <class Shape>
__device__ __forceinline__ void add_slice(const typename Shape::Stage& stage, int slice, int tiles,
                                          typename Shape::Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int g = lane / 4, chunk = slice * 4 + lane % 4;
  const int first_output = warp % Shape::kWarpsM * Shape::kTiles * 16 + g;
  const int first_row = warp / Shape::kWarpsM * (kTileRows * Shape::kRowTiles) + g;
  uint32_t lower[Shape::kTiles][4], upper[Shape::kTiles][4];
#pragma unroll
  for (int m = 0; m < Shape::kTiles; ++m) {
    const int r = first_output + m * 16;
    const uint4 v = load_shared(&stage.weights[r][place_of_chunk(r, chunk)]);
    const uint4 w = load_shared(&stage.weights[r + 8][place_of_chunk(r, chunk)]);
    lower[m][0] = v.x, lower[m][1] = w.x, lower[m][2] = v.y, lower[m][3] = w.y;
    upper[m][0] = v.z, upper[m][1] = w.z, upper[m][2] = v.w, upper[m][3] = w.w;
  }
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; ++t) {
    if (t >= tiles) break;
    const int r = first_row + t * 8;
    const uint4 x = load_shared(&stage.rows[r][place_of_chunk(r, chunk)]);
    const uint32_t lower_x[2] = {x.x, x.y}, upper_x[2] = {x.z, x.w};
#pragma unroll
    for (int m = 0; m < Shape::kTiles; ++m) mma_bf16(sums[m][t], lower[m], lower_x);
#pragma unroll
    for (int m = 0; m < Shape::kTiles; ++m) mma_bf16(sums[m][t], upper[m], upper_x);
  }
}

// Row tiles of this warp that have rows.
template <class Shape>
__device__ __forceinline__ int warp_row_tiles(int num_rows) {
  const int first = static_cast<int>(threadIdx.y) / Shape::kWarpsM * Shape::kRowTiles;
  const int tiles = (num_rows + 7) / 8 - first;
  return tiles < 0 ? 0 : (tiles < Shape::kRowTiles ? tiles : Shape::kRowTiles);
}

// Calls `block` with the shape for so many rows.
template <class Block>
__device__ __forceinline__ void with_shape(int num_rows, const Block& block) {
  if (num_rows <= kTileRows) {
    block(OneTile{});
  } else if (num_rows <= kFewRows) {
    block(FewRows{});
  } else {
    block(ManyRows{});
  }
}

// Sums [m][t][e] of this lane, lane = 4 g + q, are of the warp's tile m of outputs, output
// g + 8 (e / 2) of it, and of row 8 t + 2 q + e % 2 of the warp's. The rows' addresses are in
// shared.row, behind a barrier.
template <class Shape, bool aligned>
__device__ __forceinline__ void multiply_bf16(const Bf16Tile& a, Bf16Stages& shared,
                                              typename Shape::Sums& sums) {
  constexpr int kStages = Shape::kStages;
  typename Shape::Stage* stages = shared.stages(Shape{});
  const int64_t end = (a.width + kStageInputs - 1) / kStageInputs;
  const int tiles = warp_row_tiles<Shape>(a.num_rows);
  AsyncCopies copies;
#pragma unroll
  for (int m = 0; m < Shape::kTiles; ++m) {
#pragma unroll
    for (int t = 0; t < Shape::kRowTiles; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[m][t][e] = 0;
    }
  }
  const auto fetch = [&](int64_t s, int buffer) {
    if (s < end) {
      fetch_stage<Shape, aligned>(copies, a, shared.row, s * kStageInputs, stages[buffer]);
    }
    copies.close_batch();
  };
  for (int s = 0; s < kStages - 1; ++s) fetch(s, s);
  int buffer = 0, free_buffer = kStages - 1;
  for (int64_t s = 0; s < end; ++s) {
    copies.template wait<kStages - 2>();
    __syncthreads();
    fetch(s + kStages - 1, free_buffer);
    free_buffer = buffer;
    const auto& stage = stages[buffer];
    buffer = buffer + 1 == kStages ? 0 : buffer + 1;
#pragma unroll
    for (int slice = 0; slice < kStageSlices; ++slice) {
      if (s * kStageInputs + slice * kSliceInputs >= a.width) break;
      add_slice<Shape>(stage, slice, tiles, sums);
    }
  }
  copies.template wait<0>();
}

}  // namespace colibri::cuda
