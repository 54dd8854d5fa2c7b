// Merges tiles' partials in ascending order, as the walk in order would: one warp a (token, head)
// and 128 columns. Bound by reading the partials from the L2 cache they were written to. Thirty-two
// tiles at a time: a lane works out one tile's factors, as maxima are the same in any order; then
// all lanes fold L and their columns tile by tile.
#include "kernels/cuda/attention_parts.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kMergeWarps = 4;

// The running state of one (token, head) and of the lane's four columns.
struct MergeState {
  float m = 0, l = 0;
  Pack<float, 4> o = {};
};

// Of the lane's tile, and of the next running maximum.
struct MergeFactors {
  float old_factor, new_factor, l, top;
};

__device__ __forceinline__ float larger_maximum(float a, float b) { return a > b ? a : b; }

// `count` lanes have a tile with maximum m and sum l.
__device__ __forceinline__ MergeFactors factors_of_tiles(float running, float m, float l, int count,
                                                         bool first) {
  const int lane = static_cast<int>(threadIdx.x);
  float top = lane < count ? m : float_from_bits(0xFF800000u);
  if (!first) top = larger_maximum(running, top);
  for (int step = 1; step < kWarpSize; step *= 2) {
    const float other = shuffle(top, lane - step);
    if (lane >= step) top = larger_maximum(other, top);
  }
  const float before = shuffle(top, lane - 1);
  const float old = lane == 0 ? running : before;
  return {exp_exact(old - top), exp_exact(m - top), l, shuffle(top, count - 1)};
}

// Folds the tiles [0, count) of a block of thirty-two.
__device__ __forceinline__ void fold_tiles(const MergeFactors& factors, const float* values,
                                           int64_t stride, int count, bool first, bool mine,
                                           MergeState& state) {
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const float old_factor = shuffle(factors.old_factor, i);
    const float new_factor = shuffle(factors.new_factor, i), l = shuffle(factors.l, i);
    Pack<float, 4> o = {};
    if (mine) o = load(reinterpret_cast<const Pack<float, 4>*>(values + i * stride));
    if (first && i == 0) {
      state.l = l;
      state.o = o;
      continue;
    }
    state.l = fma_exact(l, new_factor, state.l * old_factor);
    for (int e = 0; e < 4; ++e) {
      state.o.at[e] = fma_exact(o.at[e], new_factor, state.o.at[e] * old_factor);
    }
  }
  state.m = factors.top;
}

template <bool aligned>
__global__ void merge_attention_kernel(Attention a, AttentionParts parts) {
  const int64_t num_rows = a.num_tokens * a.num_heads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kMergeWarps + threadIdx.y;
  if (row >= num_rows) return;
  const int64_t token = row / a.num_heads, head = row % a.num_heads;
  const int64_t column = blockIdx.y * kMergeColumns + static_cast<int64_t>(threadIdx.x) * 4;
  const int64_t left = a.layout.value_dim - column;
  const int64_t last = load(&a.rows[token].position) / kTile - parts.first_tile;
  if (last < 0) return;
  const int64_t count = last < parts.num_tiles ? last + 1 : parts.num_tiles;
  auto* running = reinterpret_cast<Pack<float, 2>*>(parts.running) + blockIdx.y * num_rows + row;
  float* out = a.out + token * a.out_stride + head * a.layout.value_dim + column;
  MergeState state;
  if (parts.first_tile > 0) {
    const auto sums = load(running);
    state = {sums.at[0], sums.at[1], {}};
    if (left > 0) state.o = load_pack<4, aligned>(out, left);
  }
  for (int64_t begin = 0; begin < count; begin += kWarpSize) {
    const auto here = static_cast<int>(count - begin < kWarpSize ? count - begin : kWarpSize);
    const int64_t part = begin * num_rows + row;
    Pack<float, 2> sums = {};
    if (static_cast<int>(threadIdx.x) < here) {
      sums =
          load(reinterpret_cast<const Pack<float, 2>*>(parts.sums) + part + threadIdx.x * num_rows);
    }
    const bool first = parts.first_tile + begin == 0;
    const MergeFactors factors = factors_of_tiles(state.m, sums.at[0], sums.at[1], here, first);
    fold_tiles(factors, parts.values + part * parts.value_width + column,
               num_rows * parts.value_width, here, first, left > 0, state);
  }
  if (threadIdx.x == 0) store(running, Pack<float, 2>{state.m, state.l});
  if (left <= 0) return;
  if (last < parts.num_tiles) {
    for (int e = 0; e < 4; ++e) state.o.at[e] = divide(state.o.at[e], state.l);
  }
  store_pack<4, aligned>(out, state.o, left);
}

void merge_attention(const Attention& a, const AttentionParts& parts, cudaStream_t stream) {
  const bool aligned = aligned_to(16, {a.out}, {a.layout.value_dim * 4, a.out_stride * 4});
  launch(aligned ? merge_attention_kernel<true> : merge_attention_kernel<false>,
         {.blocks = dim3(blocks_for(a.num_tokens * a.num_heads, kMergeWarps),
                         blocks_for(a.layout.value_dim, kMergeColumns)),
          .threads = dim3(kWarpSize, kMergeWarps),
          .stream = stream},
         a, parts);
}

}  // namespace colibri::cuda
