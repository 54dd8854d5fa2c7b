// DOT (kernels/op_types.h) for few rows and a matrix of few outputs, such as a router's: 256
// outputs of 7168 inputs are 7.3 MB, which sixteen warps of dot.cuh would wait for most of the
// time. Here a block has two outputs, so that each multiprocessor has one block, and three stages
// of 512 inputs of them and of the rows are under way by asynchronous copies. Half a warp holds the
// sixteen chains of one output and two rows.
#pragma once

#include "kernels/cuda/dot.cuh"

namespace colibri::cuda {

inline constexpr int kNarrowOutputs = 2;
inline constexpr int kNarrowInputs = 512;
inline constexpr int kNarrowStages = 4;
inline constexpr int kNarrowThreads = 128;

// Rows lie sixteen banks apart: the halves of a warp read neighbours at once.
template <class W>
struct alignas(16) NarrowStage {
  W weights[kNarrowOutputs][kNarrowInputs];
  float rows[kDotRows][kNarrowInputs + kChains];
};
template <class W>
struct NarrowStages {
  NarrowStage<W> stage[kNarrowStages];
};

// Two outputs from `weight` on (num_outputs of them exist) and up to eight rows from x on. Rows of
// weights and of x lie on 16 bytes, and so do their ends.
template <class W>
struct NarrowBlock {
  const W* weight;
  const float* x;
  int64_t x_stride;
  int64_t width;
  int num_outputs;
  int num_rows;
};

// Inputs of stage s, with the zeros that fill up the last sixteen.
__device__ __forceinline__ int narrow_inputs(int64_t width, int64_t s) {
  const int64_t left = (width + kChains - 1) / kChains * kChains - s * kNarrowInputs;
  return static_cast<int>(smaller(left, kNarrowInputs));
}

template <class W>
__device__ __forceinline__ void fetch_narrow(AsyncCopies& copies, const NarrowBlock<W>& a,
                                             int64_t s, int thread, NarrowStage<W>& to) {
  constexpr int kPart = 16 / static_cast<int>(sizeof(W));
  constexpr int kParts = kNarrowInputs / kPart;
  const int inputs = narrow_inputs(a.width, s);
  const int64_t first = s * kNarrowInputs;
  for (int i = thread; i < a.num_outputs * kParts; i += kNarrowThreads) {
    const int o = i / kParts, k = i % kParts * kPart;
    if (k >= inputs) continue;
    copies.template copy<16>(&to.weights[o][k], a.weight + o * a.width + first + k,
                             first + k < a.width);
  }
  static_assert(kNarrowThreads * 4 == kNarrowInputs);
  const int k = thread * 4;
  if (k >= inputs) return;
  for (int r = 0; r < a.num_rows; ++r) {
    copies.template copy<16>(&to.rows[r][k], a.x + r * a.x_stride + first + k, first + k < a.width);
  }
}

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(uint16_t value) { return from_bf16(value); }

// What a half warp adds up.
struct NarrowPlace {
  int output;
  int row[2];
};
__device__ __forceinline__ NarrowPlace narrow_place(int thread) {
  const int warp = thread / kWarpSize, half = thread / kChains % 2;
  const int row = warp / kNarrowOutputs * 4 + half;
  return {warp % kNarrowOutputs, {row, row + 2}};
}

// The sums of this thread's half warp, in every lane. Called by a whole block.
struct NarrowSums {
  float sum[2];
};
template <class W>
__device__ __forceinline__ NarrowSums multiply_narrow(const NarrowBlock<W>& a, int thread,
                                                      NarrowStages<W>& stages) {
  const NarrowPlace place = narrow_place(thread);
  const bool works[2] = {place.output < a.num_outputs && place.row[0] < a.num_rows,
                         place.output < a.num_outputs && place.row[1] < a.num_rows};
  const int64_t end = (a.width + kNarrowInputs - 1) / kNarrowInputs;
  AsyncCopies copies;
  const auto fetch = [&](int64_t s) {
    if (s < end) fetch_narrow(copies, a, s, thread, stages.stage[s % kNarrowStages]);
    copies.close_batch();
  };
  for (int s = 0; s < kNarrowStages - 1; ++s) fetch(s);
  float chain[2] = {0, 0};
  for (int64_t s = 0; s < end; ++s) {
    copies.template wait<kNarrowStages - 2>();
    __syncthreads();
    fetch(s + kNarrowStages - 1);
    if (!works[0]) continue;
    const NarrowStage<W>& stage = stages.stage[s % kNarrowStages];
    const int inputs = narrow_inputs(a.width, s);
#pragma unroll 8
    for (int k = thread % kChains; k < inputs; k += kChains) {
      const float w = widen(load_shared(&stage.weights[place.output][k]));
      chain[0] = fma_exact(load_shared(&stage.rows[place.row[0]][k]), w, chain[0]);
      if (works[1]) chain[1] = fma_exact(load_shared(&stage.rows[place.row[1]][k]), w, chain[1]);
    }
  }
  copies.template wait<0>();
  return {{sum_of_chains(chain[0]), sum_of_chains(chain[1])}};
}

}  // namespace colibri::cuda
