// The greedy pick: one block a row. Bound by reading the row's logits with one multiprocessor; a
// step has few rows, and their logits were just written. Which thread saw a logit never matters:
// the largest wins, then the lower id.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"
#include "kernels/cuda/token_candidate.cuh"

namespace colibri::cuda {

constexpr int kPickWarps = 16;
constexpr int kPickEach = 4;   // logits a thread takes at once
constexpr int kPickAhead = 4;  // times whose loads are under way

struct PickMemory {
  TokenCandidate best[kPickWarps];
  uint32_t is_finite[kPickWarps];
};

__device__ __forceinline__ bool is_number(float x) {
  return (float_bits(x) & 0x7F800000u) != 0x7F800000u;
}

__device__ __forceinline__ void best_of_warp(TokenCandidate& best, bool& finite) {
  best = best_of_lanes(best);
  finite = ballot(finite) == kFullWarp;
}

// The thread's best of the row; threads without a logit have the first.
template <bool aligned>
__device__ __forceinline__ TokenCandidate best_of_thread(const PickTokens& a, const float* row,
                                                         bool& finite) {
  constexpr int64_t kStep = kPickWarps * kWarpSize * kPickEach;
  const int64_t thread = threadIdx.y * kWarpSize + threadIdx.x;
  TokenCandidate best = {load(row), 0};
  for (int64_t first = thread * kPickEach; first < a.vocabulary; first += kPickAhead * kStep) {
    Pack<float, kPickEach> logits[kPickAhead];
#pragma unroll
    for (int k = 0; k < kPickAhead; ++k) {
      const int64_t at = first + k * kStep;
      if (at < a.vocabulary) {
        logits[k] = load_pack<kPickEach, aligned>(row + at, a.vocabulary - at);
      }
    }
#pragma unroll
    for (int k = 0; k < kPickAhead; ++k) {
#pragma unroll
      for (int i = 0; i < kPickEach; ++i) {
        const int64_t id = first + k * kStep + i;
        if (id >= a.vocabulary) continue;
        finite = finite && is_number(logits[k].at[i]);
        take_better(best, {logits[k].at[i], static_cast<int32_t>(id)});
      }
    }
  }
  return best;
}

template <bool aligned>
__global__ void pick_tokens_kernel(PickTokens a) {
  auto& memory = shared_as<PickMemory>();
  const int warp = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x;
  bool finite = true;
  TokenCandidate best = best_of_thread<aligned>(a, a.logits + row * a.stride, finite);
  best_of_warp(best, finite);
  if (lane == 0) {
    store_shared(&memory.best[warp].logit, best.logit);
    store_shared(&memory.best[warp].id, best.id);
    store_shared(memory.is_finite + warp, finite ? 1u : 0u);
  }
  __syncthreads();
  if (warp > 0) return;
  const int of = lane % kPickWarps;
  best = {load_shared(&memory.best[of].logit), load_shared(&memory.best[of].id)};
  finite = load_shared(memory.is_finite + of) != 0;
  best_of_warp(best, finite);
  if (lane == 0) store(a.ids + row, finite ? best.id : int32_t{-1});
}

void pick_tokens(const PickTokens& a, cudaStream_t stream) {
  const bool aligned = aligned_to(16, {a.logits}, {a.stride * 4, a.vocabulary * 4});
  launch(aligned ? pick_tokens_kernel<true> : pick_tokens_kernel<false>,
         {.blocks = blocks_for(a.num_rows, 1),
          .threads = dim3(kWarpSize, kPickWarps),
          .shared_bytes = sizeof(PickMemory),
          .stream = stream},
         a);
  if (a.draws != nullptr) draw_tokens(a, stream);
}

}  // namespace colibri::cuda
