// A token that may be picked: what the pick and the draw share.
#pragma once

#include "kernels/cuda/intrinsics.cuh"
#include "kernels/op_types.h"

namespace colibri::cuda {

struct TokenCandidate {
  float logit;
  int32_t id;
};

// The larger logit comes first, then the lower id.
__device__ __forceinline__ bool comes_before(const TokenCandidate& a, const TokenCandidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}
__device__ __forceinline__ void take_better(TokenCandidate& best, const TokenCandidate& other) {
  if (comes_before(other, best)) best = other;
}

// The first of the warp's candidates, in every lane.
__device__ __forceinline__ TokenCandidate best_of_lanes(TokenCandidate best) {
  for (int step = kWarpSize / 2; step >= 1; step /= 2) {
    const float logit = shuffle_xor(best.logit, step);
    take_better(best, {logit, shuffle_xor(best.id, step)});
  }
  return best;
}

// Overwrites the greedy ids of rows that have a draw.
void draw_tokens(const PickTokens&, cudaStream_t stream);

}  // namespace colibri::cuda
