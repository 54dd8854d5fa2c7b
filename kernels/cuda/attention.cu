// Paged attention for prefill and decode: one warp has up to eight query rows of one kv head
// (attention_tile.cuh), so that keys and values are read once for a kv head's queries. Decode is
// bound by reading the cache, prefill and latent attention by f32 arithmetic.
//
// Two forms, with the same partials, the same merges and the same bits. In order: a warp walks its
// tiles and keeps the merged result in `out`. In parts: where there are too few warps for that and
// the contexts may be long, every tile is a warp's, its partial goes to scratch, and a second
// kernel merges (attention_merge.cu), in waves of as many tiles as the scratch holds.
#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/attention_parts.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

constexpr int64_t kEnoughWarps = 1024;  // more fill a GPU without cutting contexts
constexpr int64_t kMostTiles = 512;     // of a wave
constexpr int64_t kFewestTiles = 4;     // of a wave, below that in order
constexpr int64_t kPartBytes = int64_t{32} << 20;
constexpr int kAttendBlocks = 3;  // on a multiprocessor, by registers

template <class E>
__device__ __forceinline__ int64_t attend_warp_bytes(int64_t q_width) {
  return static_cast<int64_t>(sizeof(AttendMemory<E>)) + kAttendRows * q_width * 4;
}

template <class E>
struct WarpMemory {
  AttendMemory<E>& fixed;
  float* q;
};

template <class E>
__device__ __forceinline__ WarpMemory<E> memory_of_warp(int64_t q_width) {
  auto* base = reinterpret_cast<unsigned char*>(&shared_as<AttendMemory<E>>()) +
               threadIdx.y * attend_warp_bytes<E>(q_width);
  return {*reinterpret_cast<AttendMemory<E>*>(base),
          reinterpret_cast<float*>(base + sizeof(AttendMemory<E>))};
}

__device__ __forceinline__ int64_t token_of(const AttendUnit& unit, int row) {
  return unit.token + row / unit.num_heads;
}
__device__ __forceinline__ int64_t head_of(const AttendUnit& unit, int row) {
  return unit.head + row % unit.num_heads;
}

// The unit that starts at `token`: as many of its slot's tokens as belong to the same sequence.
__device__ __forceinline__ AttendUnit unit_at(const AttendCall& call, int64_t token,
                                              int64_t slot_end) {
  const int64_t group = call.a.num_heads / call.a.layout.num_kv_heads;
  const int64_t chunk = blockIdx.y % call.head_chunks, kv_head = blockIdx.y / call.head_chunks;
  const int64_t first = chunk * call.heads_per_unit, left = group - first;
  AttendUnit unit;
  unit.token = token;
  unit.kv_head = kv_head;
  unit.head = kv_head * group + first;
  unit.num_heads = static_cast<int>(left < call.heads_per_unit ? left : call.heads_per_unit);
  unit.pages = load(&call.a.rows[token].pages);
  int64_t end = token + 1;
  while (end < slot_end && load(&call.a.rows[end].pages) == unit.pages) ++end;
  unit.num_rows = static_cast<int>(end - token) * unit.num_heads;
  return unit;
}

// Lane r < 8 gets the position of row r, -1 where there is none.
__device__ __forceinline__ int position_of_lane(const AttendCall& call, const AttendUnit& unit) {
  const int lane = static_cast<int>(threadIdx.x);
  return lane < unit.num_rows ? load(&call.a.rows[token_of(unit, lane)].position) : -1;
}
__device__ __forceinline__ int farthest(int position) {
  for (int step = kAttendRows / 2; step >= 1; step /= 2) {
    const int other = shuffle_xor(position, step);
    position = other > position ? other : position;
  }
  return shuffle(position, 0);
}

template <bool aligned>
__device__ __forceinline__ void load_queries(const AttendCall& call, const AttendUnit& unit,
                                             float* q) {
  const int64_t key_dim = call.a.layout.key_dim;
  __syncwarp();
  for (int r = 0; r < kAttendRows; ++r) {
    for (int64_t i = static_cast<int64_t>(threadIdx.x) * 4; i < call.q_width; i += 4 * kWarpSize) {
      Pack<float, 4> four = {};
      if (r < unit.num_rows && i < key_dim) {
        const float* row =
            call.a.q + token_of(unit, r) * call.a.q_stride + head_of(unit, r) * key_dim;
        four = load_pack<4, aligned>(row + i, key_dim - i);
      }
      store_shared(reinterpret_cast<Pack<float, 4>*>(q + r * call.q_width + i), four);
    }
  }
}

// Notes how much of the tile each row sees; `position` is that of the lane's row.
template <class E>
__device__ __forceinline__ int put_limits(int position, int64_t tile, AttendMemory<E>& memory) {
  const int64_t seen = position + 1 - tile * kTile;
  const auto limit = static_cast<int>(seen < 0 ? 0 : seen > kTile ? kTile : seen);
  __syncwarp();
  if (threadIdx.x < kAttendRows) store_shared(memory.limit + threadIdx.x, limit);
  __syncwarp();
  const int most = farthest(limit);
  return most;
}

// Lanes 0 and 1 merge a tile's m and l of the even and the odd rows into the running ones.
template <class E>
__device__ __forceinline__ void merge_tile_sums(const TileSums& tile, bool first,
                                                AttendMemory<E>& memory) {
  if (threadIdx.x >= 2) return;
#pragma unroll
  for (int i = 0; i < kAttendRows / 2; ++i) {
    const int row = 2 * i + static_cast<int>(threadIdx.x);
    if (load_shared(memory.limit + row) == 0) continue;
    float top = tile.m[i], total = tile.l[i], old_factor = 0, new_factor = 0;
    if (!first) {
      const float running = load_shared(memory.top + row);
      top = largest_of(running, tile.m[i]);
      old_factor = exp_exact(running - top);
      new_factor = exp_exact(tile.m[i] - top);
      total = fma_exact(tile.l[i], new_factor, load_shared(memory.total + row) * old_factor);
    }
    store_shared(memory.old_factor + row, old_factor);
    store_shared(memory.new_factor + row, new_factor);
    store_shared(memory.top + row, top);
    store_shared(memory.total + row, total);
  }
}

// Merges a tile's sums into `out`, and divides the rows that end with this tile.
template <class E, bool aligned>
struct PutInOrder {
  const AttendCall& call;
  const AttendUnit& unit;
  const AttendMemory<E>& memory;
  const int64_t tile;

  __device__ void operator()(int row, int64_t column,
                             const float (&sums)[ValueSums<E>::kEach]) const {
    const Attention& a = call.a;
    const int64_t token = token_of(unit, row);
    const bool ends = load(&a.rows[token].position) / kTile == tile;
    const float old_factor = load_shared(memory.old_factor + row);
    const float new_factor = load_shared(memory.new_factor + row);
    const float total = load_shared(memory.total + row);
    float* out = a.out + token * a.out_stride + head_of(unit, row) * a.layout.value_dim + column;
    const int64_t left = a.layout.value_dim - column;
#pragma unroll
    for (int e = 0; e < ValueSums<E>::kEach; e += 4) {
      Pack<float, 4> merged = {sums[e], sums[e + 1], sums[e + 2], sums[e + 3]};
      if (tile > 0) {
        const auto old = load_pack<4, aligned>(out + e, left - e);
        for (int i = 0; i < 4; ++i) {
          merged.at[i] = fma_exact(merged.at[i], new_factor, old.at[i] * old_factor);
        }
      }
      if (ends) {
        for (int i = 0; i < 4; ++i) merged.at[i] = divide(merged.at[i], total);
      }
      store_pack<4, aligned>(out + e, merged, left - e);
    }
  }
};

template <class E, bool aligned>
__device__ __forceinline__ void attend_in_order(const AttendCall& call, const AttendUnit& unit,
                                                const WarpMemory<E>& memory) {
  load_queries<aligned>(call, unit, memory.q);
  const int position = position_of_lane(call, unit);
  const int64_t last_tile = farthest(position) / kTile;
  for (int64_t tile = 0; tile <= last_tile; ++tile) {
    TileView<E> view = view_of<E>(call, unit, tile);
    view.most = put_limits(position, tile, memory.fixed);
    score_tile<E, aligned>(call, view, memory.q, memory.fixed);
    const TileSums sums = tile_probabilities(memory.fixed);
    merge_tile_sums(sums, tile == 0, memory.fixed);
    __syncwarp();
    weigh_values<E, aligned>(call, unit, view, memory.fixed,
                             PutInOrder<E, aligned>{call, unit, memory.fixed, tile});
  }
}

template <class E, bool aligned>
__global__ void __launch_bounds__(kWarpSize* kAttendWarps, kAttendBlocks)
    attention_in_order_kernel(AttendCall call) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kAttendWarps + threadIdx.y;
  const WarpMemory<E> memory = memory_of_warp<E>(call.q_width);
  int64_t token = slot * call.tokens_per_slot, end = token + call.tokens_per_slot;
  if (end > call.a.num_tokens) end = call.a.num_tokens;
  while (token < end) {
    const AttendUnit unit = unit_at(call, token, end);
    attend_in_order<E, aligned>(call, unit, memory);
    token += unit.num_rows / unit.num_heads;
  }
}

// Where a tile's partial of (token, head) lies.
__device__ __forceinline__ int64_t part_of(const AttendCall& call, const AttentionParts& parts,
                                           int64_t tile, int64_t token, int64_t head) {
  return ((tile - parts.first_tile) * call.a.num_tokens + token) * call.a.num_heads + head;
}

template <class E>
struct PutPart {
  const AttendCall& call;
  const AttendUnit& unit;
  const AttentionParts& parts;
  const int64_t tile;

  // The room of a partial is whole packs.
  __device__ void operator()(int row, int64_t column,
                             const float (&sums)[ValueSums<E>::kEach]) const {
    float* to = parts.values + part_of(call, parts, tile, token_of(unit, row), head_of(unit, row)) *
                                   parts.value_width;
#pragma unroll
    for (int e = 0; e < ValueSums<E>::kEach; e += 4) {
      if (column + e >= parts.value_width) continue;
      store(reinterpret_cast<Pack<float, 4>*>(to + column + e),
            Pack<float, 4>{sums[e], sums[e + 1], sums[e + 2], sums[e + 3]});
    }
  }
};

// Lanes 0 and 1 store m and l of the even and the odd rows.
__device__ __forceinline__ void put_sums(const AttendCall& call, const AttendUnit& unit,
                                         const AttentionParts& parts, int64_t tile,
                                         const TileSums& sums) {
#pragma unroll
  for (int i = 0; i < kAttendRows / 2; ++i) {
    const int row = 2 * i + static_cast<int>(threadIdx.x) % 2;
    if (threadIdx.x >= 2 || row >= unit.num_rows) continue;
    const int64_t part = part_of(call, parts, tile, token_of(unit, row), head_of(unit, row));
    store(reinterpret_cast<Pack<float, 2>*>(parts.sums) + part,
          Pack<float, 2>{sums.m[i], sums.l[i]});
  }
}

template <class E, bool aligned>
__global__ void __launch_bounds__(kWarpSize* kAttendWarps, kAttendBlocks)
    attention_parts_kernel(AttendCall call, AttentionParts parts) {
  const int64_t tile_of_wave = static_cast<int64_t>(blockIdx.z) * kAttendWarps + threadIdx.y;
  const int64_t tile = parts.first_tile + tile_of_wave;
  if (tile_of_wave >= parts.num_tiles) return;
  const WarpMemory<E> memory = memory_of_warp<E>(call.q_width);
  int64_t token = blockIdx.x * call.tokens_per_slot, end = token + call.tokens_per_slot;
  if (end > call.a.num_tokens) end = call.a.num_tokens;
  while (token < end) {
    const AttendUnit unit = unit_at(call, token, end);
    token += unit.num_rows / unit.num_heads;
    const int position = position_of_lane(call, unit);
    if (tile > farthest(position) / kTile) continue;
    load_queries<aligned>(call, unit, memory.q);
    TileView<E> view = view_of<E>(call, unit, tile);
    view.most = put_limits(position, tile, memory.fixed);
    score_tile<E, aligned>(call, view, memory.q, memory.fixed);
    put_sums(call, unit, parts, tile, tile_probabilities(memory.fixed));
    __syncwarp();
    weigh_values<E, aligned>(call, unit, view, memory.fixed, PutPart<E>{call, unit, parts, tile});
  }
}

AttendCall call_of(const Attention& a) {
  const int64_t group = a.num_heads / a.layout.num_kv_heads;
  AttendCall call{.a = a, .page_elements = a.layout.page_elements()};
  call.q_width = (a.layout.key_dim + kChains - 1) / kChains * kChains;
  call.head_chunks = (group + kAttendRows - 1) / kAttendRows;
  call.heads_per_unit = (group + call.head_chunks - 1) / call.head_chunks;
  call.tokens_per_slot = kAttendRows / call.heads_per_unit;
  return call;
}

int64_t slots_of(const AttendCall& call, int64_t num_tokens) {
  return (num_tokens + call.tokens_per_slot - 1) / call.tokens_per_slot;
}
int64_t warps_a_slot(const AttendCall& call) {
  return call.a.layout.num_kv_heads * call.head_chunks;
}

int64_t value_width(const Attention& a) { return (a.layout.value_dim + 3) / 4 * 4; }
int64_t running_bytes(const Attention& a, int64_t num_tokens) {
  const int64_t columns = (a.layout.value_dim + kMergeColumns - 1) / kMergeColumns;
  return (columns * num_tokens * a.num_heads * 8 + 15) / 16 * 16;
}
int64_t tile_bytes(const Attention& a, int64_t num_tokens) {
  return num_tokens * a.num_heads * (value_width(a) + 2) * 4;
}

// Tiles of a wave; 0: in order.
int64_t tiles_of_wave(const AttendCall& call) {
  const Attention& a = call.a;
  const int64_t tiles = a.max_position / kTile + 1;
  if (tiles == 1 || slots_of(call, a.num_tokens) * warps_a_slot(call) >= kEnoughWarps) return 0;
  const int64_t most = std::min(kMostTiles, (kPartBytes - 16) / tile_bytes(a, a.num_tokens));
  return most < kFewestTiles ? 0 : std::min(most, tiles);
}

int64_t attention_scratch_bytes(const Attention& largest) {
  return running_bytes(largest, largest.num_tokens) +
         std::min(kPartBytes, kMostTiles * tile_bytes(largest, largest.num_tokens) + 16);
}

template <class E, bool aligned>
void attend_in_parts(const AttendCall& call, const Grid& grid, int64_t tiles_a_wave) {
  const Attention& a = call.a;
  const int64_t num_rows = a.num_tokens * a.num_heads;
  AttentionParts parts{.running = static_cast<float*>(a.scratch), .value_width = value_width(a)};
  parts.sums = parts.running + running_bytes(a, a.num_tokens) / 4;
  parts.values = parts.sums + (tiles_a_wave * num_rows * 2 + 3) / 4 * 4;
  for (int64_t first = 0; first <= a.max_position / kTile; first += tiles_a_wave) {
    parts.first_tile = first;
    parts.num_tiles = std::min(tiles_a_wave, a.max_position / kTile + 1 - first);
    Grid wave = grid;
    wave.blocks.z = blocks_for(parts.num_tiles, kAttendWarps);
    launch(attention_parts_kernel<E, aligned>, wave, call, parts);
    merge_attention(a, parts, grid.stream);
  }
}

template <class E, bool aligned>
void launch_attention(const AttendCall& call, cudaStream_t stream) {
  const int64_t slots = slots_of(call, call.a.num_tokens);
  Grid grid = {.blocks = dim3(blocks_for(slots, 1), static_cast<unsigned int>(warps_a_slot(call))),
               .threads = dim3(kWarpSize, kAttendWarps),
               .shared_bytes = kAttendWarps * (sizeof(AttendMemory<E>) +
                                               static_cast<size_t>(kAttendRows * call.q_width * 4)),
               .stream = stream};
  allow_shared_bytes(attention_in_order_kernel<E, aligned>, grid.shared_bytes);
  allow_shared_bytes(attention_parts_kernel<E, aligned>, grid.shared_bytes);
  const int64_t tiles = tiles_of_wave(call);
  if (tiles > 0) return attend_in_parts<E, aligned>(call, grid, tiles);
  grid.blocks.x = blocks_for(slots, kAttendWarps);
  launch(attention_in_order_kernel<E, aligned>, grid, call);
}

template <class E>
void attend(const AttendCall& call, cudaStream_t stream) {
  const Attention& a = call.a;
  const auto element = static_cast<int64_t>(sizeof(E));
  const bool aligned =
      aligned_to(16, {a.pool, a.q, a.out},
                 {a.layout.key_dim * element, a.layout.value_dim * element, a.layout.key_dim * 4,
                  a.layout.value_dim * 4, a.q_stride * 4, a.out_stride * 4});
  if (aligned) {
    launch_attention<E, true>(call, stream);
  } else {
    launch_attention<E, false>(call, stream);
  }
}

void attention(const Attention& a, cudaStream_t stream) {
  if (a.num_tokens == 0) return;
  if (a.layout.dtype == DType::kF32) {
    attend<float>(call_of(a), stream);
  } else {
    attend<uint16_t>(call_of(a), stream);
  }
}

}  // namespace colibri::cuda
