// One tile of attention by one warp: up to eight query rows (tokens x heads of one kv head) against
// 64 positions. Scores, the tile's own maximum and sum, and the weighted sum of values, in the
// order that kernels/op_types.h fixes; nothing here meets another warp.
//
// Scores: half a warp holds DOT's sixteen chains. Keys come through shared memory, sixteen
// positions by 128 bytes at a time, so that a lane has 8 rows x 8 positions of products for 16
// numbers read. The chains' tree is folded while it is transposed: lane c of a half warp ends with
// two rows' sums at positions 2 (c / 2) + half, so that a row's probabilities lie chain by chain in
// the lanes. Values: a lane owns 16 bytes of columns and reads each value once, straight from
// global memory.
#pragma once

#include "kernels/cuda/packs.cuh"
#include "kernels/op_types.h"

namespace colibri::cuda {

inline constexpr int kAttendRows = 8;
inline constexpr int kAttendWarps = 4;     // of a block
inline constexpr int kPassKeys = 16;       // positions scored at once
inline constexpr int kProbStride = 12;     // floats between positions: at most 2-way conflicts
inline constexpr int kValueAhead = 4;      // positions whose values are under way
inline constexpr int kValueColumns = 128;  // that a warp weighs at once

// An Attention and what its launcher worked out from shapes.
struct AttendCall {
  Attention a;
  int64_t page_elements = 0;
  int64_t q_width = 0;         // key_dim rounded up to whole chains
  int64_t heads_per_unit = 0;  // of one kv head that a warp takes
  int64_t head_chunks = 0;     // warps that share a kv head's query heads
  int64_t tokens_per_slot = 0;
  int64_t value_width = 0;  // value_dim rounded up to 16 bytes: of a partial
};

// Query rows of one warp: row r is token `token + r / num_heads`, head `head + r % num_heads`.
struct AttendUnit {
  int64_t token = 0, head = 0, kv_head = 0;
  int num_heads = 0, num_rows = 0;
  const int32_t* pages = nullptr;
};

template <class E>
struct AttendSlice {
  static constexpr int kEach = 16 / static_cast<int>(sizeof(E));
  static constexpr int kDims = 8 * kEach;
  static constexpr int kStride = kDims + kChains;  // the halves of a warp meet other banks
};

// Of one warp; q [kAttendRows, q_width] follows.
template <class E>
struct alignas(16) AttendMemory {
  float keys[kPassKeys * AttendSlice<E>::kStride];
  float p[kTile * kProbStride];  // scores, then probabilities: [position][row]
  float old_factor[kAttendRows];
  float new_factor[kAttendRows];
  float top[kAttendRows];      // M
  float total[kAttendRows];    // L
  int32_t limit[kAttendRows];  // positions of the tile that the row sees
};

// Sixteen bytes of keys or values as words, because a half word alone would take a register.
struct alignas(16) CacheWords {
  uint32_t at[4];
};

__device__ __forceinline__ uint32_t bits_of(float x) { return float_bits(x); }
__device__ __forceinline__ uint32_t bits_of(uint16_t x) { return x; }

// The words at p. Not `aligned`: elements from `count` on are zeros and not read.
template <bool aligned, class E>
__device__ __forceinline__ CacheWords load_words(const E* p, int64_t count) {
  constexpr int kAWord = 4 / static_cast<int>(sizeof(E));
  if constexpr (aligned) {
    return load(reinterpret_cast<const CacheWords*>(p));
  } else {
    CacheWords words = {};
#pragma unroll
    for (int i = 0; i < 4 * kAWord; ++i) {
      if (i < count) words.at[i / kAWord] |= bits_of(load(p + i)) << (i % kAWord * 16);
    }
    return words;
  }
}

// Element i as f32.
template <class E>
__device__ __forceinline__ float element_of(const CacheWords& words, int i) {
  if constexpr (sizeof(E) == 4) {
    return float_from_bits(words.at[i]);
  } else {
    return float_from_bits(i % 2 == 0 ? words.at[i / 2] << 16 : words.at[i / 2] & 0xFFFF0000u);
  }
}

// A tile's keys and values of the unit's kv head.
template <class E>
struct TileView {
  const E* keys;
  const E* values;
  int64_t value_stride;
  int most;  // the largest limit
};

template <class E>
__device__ __forceinline__ TileView<E> view_of(const AttendCall& call, const AttendUnit& unit,
                                               int64_t tile) {
  const KvLayout& layout = call.a.layout;
  const E* page = static_cast<const E*>(call.a.pool) + load(unit.pages + tile) * call.page_elements;
  const E* keys = page + unit.kv_head * kTile * layout.key_dim;
  if (layout.shared_value) return {keys, keys, layout.key_dim, 0};
  const E* values =
      page + kTile * (layout.num_kv_heads * layout.key_dim + unit.kv_head * layout.value_dim);
  return {keys, values, layout.value_dim, 0};
}

// What a lane carries of sixteen positions x 128 bytes of keys.
struct StagedKeys {
  CacheWords at[4];
};

template <class E, bool aligned>
__device__ __forceinline__ StagedKeys load_keys(const TileView<E>& tile, int64_t key_dim, int first,
                                                int64_t dim) {
  constexpr int kEach = AttendSlice<E>::kEach;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t column = dim + lane % 8 * kEach;
  StagedKeys staged = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first + 4 * i + lane / 8;
    if (row >= tile.most || column >= key_dim) continue;
    staged.at[i] = load_words<aligned>(tile.keys + row * key_dim + column, key_dim - column);
  }
  return staged;
}

template <class E>
__device__ __forceinline__ void put_keys(const StagedKeys& staged, float* keys) {
  constexpr int kEach = AttendSlice<E>::kEach;
  const int lane = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float* to = keys + (4 * i + lane / 8) * AttendSlice<E>::kStride + lane % 8 * kEach;
#pragma unroll
    for (int j = 0; j < kEach; j += 4) {
      store_shared(
          reinterpret_cast<Pack<float, 4>*>(to + j),
          Pack<float, 4>{element_of<E>(staged.at[i], j), element_of<E>(staged.at[i], j + 1),
                         element_of<E>(staged.at[i], j + 2), element_of<E>(staged.at[i], j + 3)});
    }
  }
}

// Chain `lane % 16` of 8 rows x 8 positions (2 n + half).
struct ScoreChains {
  float at[kAttendRows][kPassKeys / 2];
};

template <class E>
__device__ __forceinline__ void multiply(const float* q, int64_t q_width, const float* keys,
                                         int groups, ScoreChains& chains) {
  const int lane = static_cast<int>(threadIdx.x);
  const float* k_lane = keys + lane / kChains * AttendSlice<E>::kStride + lane % kChains;
  const float* q_lane = q + lane % kChains;
#pragma unroll 1
  for (int g = 0; g < groups; ++g) {
    float k[kPassKeys / 2];
#pragma unroll
    for (int n = 0; n < kPassKeys / 2; ++n) {
      k[n] = load_shared(k_lane + 2 * n * AttendSlice<E>::kStride + kChains * g);
    }
#pragma unroll
    for (int r = 0; r < kAttendRows; ++r) {
      const float x = load_shared(q_lane + r * q_width + kChains * g);
#pragma unroll
      for (int n = 0; n < kPassKeys / 2; ++n) {
        chains.at[r][n] = fma_exact(x, k[n], chains.at[r][n]);
      }
    }
  }
}

// Sixteen values, chain c of each in lane c of a half warp: lane c gets the tree's sum of value c.
__device__ __forceinline__ float sum_transposed(float (&v)[kChains]) {
  const int lane = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int step = kChains / 2; step >= 1; step /= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < kChains / 2; ++i) {
      if (i >= step) continue;
      const float keep = upper ? v[i + step] : v[i], give = upper ? v[i] : v[i + step];
      v[i] = keep + shuffle_xor(give, step);
    }
  }
  return v[0];
}

// Scores of positions [first, first + 16) to shared memory.
__device__ __forceinline__ void put_scores(const ScoreChains& chains, int first, float scale,
                                           float* p) {
  const int lane = static_cast<int>(threadIdx.x);
  const int position = first + lane % kChains / 2 * 2 + lane / kChains;
#pragma unroll
  for (int r = 0; r < kAttendRows; r += 2) {
    float v[kChains];
#pragma unroll
    for (int n = 0; n < kPassKeys / 2; ++n) {
      v[2 * n] = chains.at[r][n];
      v[2 * n + 1] = chains.at[r + 1][n];
    }
    store_shared(p + position * kProbStride + r + lane % 2, sum_transposed(v) * scale);
  }
}

template <class E, bool aligned>
__device__ __forceinline__ void score_tile(const AttendCall& call, const TileView<E>& tile,
                                           const float* q, AttendMemory<E>& memory) {
  constexpr int kDims = AttendSlice<E>::kDims;
  const int64_t key_dim = call.a.layout.key_dim;
  StagedKeys staged = load_keys<E, aligned>(tile, key_dim, 0, 0);
  for (int first = 0; first < tile.most; first += kPassKeys) {
    ScoreChains chains = {};
    for (int64_t dim = 0; dim < key_dim; dim += kDims) {
      __syncwarp();
      put_keys<E>(staged, memory.keys);
      __syncwarp();
      const bool ends = dim + kDims >= key_dim;
      staged = load_keys<E, aligned>(tile, key_dim, ends ? first + kPassKeys : first,
                                     ends ? 0 : dim + kDims);
      const int64_t left = call.q_width - dim;
      multiply<E>(q + dim, call.q_width, memory.keys,
                  static_cast<int>(left < kDims ? left : kDims) / kChains, chains);
    }
    put_scores(chains, first, call.a.softmax_scale, memory.p);
  }
}

// m and l of the rows 2 i + lane % 2.
struct TileSums {
  float m[kAttendRows / 2], l[kAttendRows / 2];
};

__device__ __forceinline__ float largest_of(float a, float b) { return a > b ? a : b; }

// Turns a row's scores into probabilities; every lane reads and writes the places it stored before.
template <class E>
__device__ __forceinline__ TileSums tile_probabilities(AttendMemory<E>& memory) {
  const int lane = static_cast<int>(threadIdx.x);
  const int chain = lane % kChains / 2 * 2 + lane / kChains;  // position modulo 16
  TileSums sums;
#pragma unroll
  for (int i = 0; i < kAttendRows / 2; ++i) {
    const int row = 2 * i + lane % 2, limit = load_shared(memory.limit + row);
    float* p = memory.p + chain * kProbStride + row;
    float s[kTile / kChains] = {};
    float m = float_from_bits(0xFF800000u);  // -infinity
#pragma unroll
    for (int k = 0; k < kTile / kChains; ++k) {
      if (chain + k * kChains >= limit) continue;
      s[k] = load_shared(p + k * kChains * kProbStride);
      m = largest_of(s[k], m);
    }
    for (int step = 2; step <= 16; step *= 2) m = largest_of(shuffle_xor(m, step), m);
    float l = 0;
#pragma unroll
    for (int k = 0; k < kTile / kChains; ++k) {
      const float probability = chain + k * kChains < limit ? exp_exact(s[k] - m) : 0.0f;
      store_shared(p + k * kChains * kProbStride, probability);
      l = l + probability;
    }
    for (int step = 8; step >= 2; step /= 2) l = l + shuffle_xor(l, step);
    sums.m[i] = m;
    sums.l[i] = l + shuffle_xor(l, 16);
  }
  return sums;
}

// A lane's columns of its rows: 8 rows x 4 columns, or 4 rows x 8 columns by each half warp.
template <class E>
struct ValueSums {
  static constexpr int kEach = AttendSlice<E>::kEach;
  static constexpr int kLanesAcross = kValueColumns / kEach;
  static constexpr int kRows = kAttendRows * kLanesAcross / kWarpSize;
  float at[kRows][kEach];
};

// Adds one position's values. `guarded`: rows may end before this position.
template <bool guarded, class E>
__device__ __forceinline__ void weigh_position(const CacheWords& values, const float* p,
                                               const int32_t* limit, int position,
                                               ValueSums<E>& sums) {
#pragma unroll
  for (int r = 0; r < ValueSums<E>::kRows; r += 4) {
    const auto four =
        load_shared(reinterpret_cast<const Pack<float, 4>*>(p + position * kProbStride + r));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (guarded && position >= load_shared(limit + r + i)) continue;
#pragma unroll
      for (int e = 0; e < ValueSums<E>::kEach; ++e) {
        sums.at[r + i][e] = fma_exact(four.at[i], element_of<E>(values, e), sums.at[r + i][e]);
      }
    }
  }
}

// The weighted sums of a lane's columns from `column` on.
template <bool guarded, class E, bool aligned>
__device__ __forceinline__ ValueSums<E> weigh_columns(const TileView<E>& tile, int64_t column,
                                                      int64_t left, int first_row,
                                                      const AttendMemory<E>& memory) {
  ValueSums<E> sums = {};
#pragma unroll 1
  for (int first = 0; first < tile.most; first += kValueAhead) {
    CacheWords values[kValueAhead];
#pragma unroll
    for (int i = 0; i < kValueAhead; ++i) {
      if (guarded && first + i >= tile.most) continue;
      values[i] = load_words<aligned>(tile.values + (first + i) * tile.value_stride + column, left);
    }
#pragma unroll
    for (int i = 0; i < kValueAhead; ++i) {
      if (guarded && first + i >= tile.most) continue;
      weigh_position<guarded>(values[i], memory.p + first_row, memory.limit + first_row, first + i,
                              sums);
    }
  }
  return sums;
}

// Calls put(row, column, sums of `kEach` columns) for every row that sees something of the tile.
template <class E, bool aligned, class Put>
__device__ __forceinline__ void weigh_values(const AttendCall& call, const AttendUnit& unit,
                                             const TileView<E>& tile, const AttendMemory<E>& memory,
                                             const Put& put) {
  using Sums = ValueSums<E>;
  const int lane = static_cast<int>(threadIdx.x);
  const int first_row = lane / Sums::kLanesAcross * Sums::kRows;
  int least = kTile;
  for (int r = 0; r < unit.num_rows; ++r) {
    const int limit = load_shared(memory.limit + r);
    least = limit < least ? limit : least;
  }
  const int64_t value_dim = call.a.layout.value_dim;
  for (int64_t column = lane % Sums::kLanesAcross * Sums::kEach; column < value_dim;
       column += kValueColumns) {
    const int64_t left = value_dim - column;
    const Sums sums = least == kTile
                          ? weigh_columns<false, E, aligned>(tile, column, left, first_row, memory)
                          : weigh_columns<true, E, aligned>(tile, column, left, first_row, memory);
#pragma unroll
    for (int r = 0; r < Sums::kRows; ++r) {
      if (load_shared(memory.limit + first_row + r) > 0) put(first_row + r, column, sums.at[r]);
    }
  }
}

}  // namespace colibri::cuda
