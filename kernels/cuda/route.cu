// Router: one warp a token, so that a decode step's few tokens wait for few exchanges. Bound by
// latency: K rounds of a warp-wide choice. Lane e % 32 owns expert e; scores lie in shared memory.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/order.cuh"
#include "kernels/ops.h"

namespace colibri::cuda {

// Of one token; `count` floats each, one after the other.
struct RouteMemory {
  float* score;   // what weights are made of
  float* choice;  // what decides; -infinity once out of the race
  float* group;   // scores of groups, then the chosen experts' scores in order
};

__device__ __forceinline__ float out_of_race() { return float_from_bits(0xFF800000u); }
__device__ __forceinline__ bool is_finite(float x) {
  return (float_bits(x) & 0x7F800000u) != 0x7F800000u;
}
__device__ __forceinline__ float larger_of(float a, float b) { return a > b ? a : b; }
__device__ __forceinline__ float smaller_of(float a, float b) { return a < b ? a : b; }

__device__ __forceinline__ bool all_finite(const float* x, int count, bool shared) {
  bool finite = true;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kWarpSize) {
    finite = finite && is_finite(shared ? load_shared(x + e) : load(x + e));
  }
  return ballot(finite) == kFullWarp;
}

// The first of the largest of `count` numbers in shared memory, in every lane.
__device__ __forceinline__ int index_of_largest(const float* x, int count) {
  const int lane = static_cast<int>(threadIdx.x);
  float best = out_of_race();
  int at = lane < count ? lane : 0;
  for (int i = lane; i < count; i += kWarpSize) {
    const float value = load_shared(x + i);
    if (value > best) {
      best = value;
      at = i;
    }
  }
  for (int step = kWarpSize / 2; step >= 1; step /= 2) {
    const float other = shuffle_xor(best, step);
    const int other_at = shuffle_xor(at, step);
    if (other > best || (other == best && other_at < at)) {
      best = other;
      at = other_at;
    }
  }
  return at;
}

// Scores by softmax: exp in the lanes, the sum in SUM's order by both halves of the warp.
__device__ __forceinline__ void softmax_scores(const float* logits, int count, float* score) {
  const int lane = static_cast<int>(threadIdx.x);
  float top = out_of_race();
  for (int e = lane; e < count; e += kWarpSize) top = larger_of(load(logits + e), top);
  for (int step = kWarpSize / 2; step >= 1; step /= 2) {
    top = larger_of(shuffle_xor(top, step), top);
  }
  for (int e = lane; e < count; e += kWarpSize) {
    store_shared(score + e, exp_exact(load(logits + e) - top));
  }
  __syncwarp();
  float chain = 0;
  for (int e = lane % kChains; e < count; e += kChains) chain = chain + load_shared(score + e);
  const float total = sum_of_chains(chain);
  __syncwarp();
  for (int e = lane; e < count; e += kWarpSize) {
    store_shared(score + e, divide(load_shared(score + e), total));
  }
}

__device__ __forceinline__ void score_experts(const Route& a, const float* logits,
                                              const RouteMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x), count = a.knobs.num_experts;
  if (a.knobs.score == ScoreFunction::kSoftmax) {
    softmax_scores(logits, count, memory.score);
  } else {
    for (int e = lane; e < count; e += kWarpSize) {
      store_shared(memory.score + e, divide(1.0f, one_plus_exp_of_minus(load(logits + e))));
    }
  }
  for (int e = lane; e < count; e += kWarpSize) {
    const float score = load_shared(memory.score + e);
    store_shared(memory.choice + e,
                 a.knobs.has_selection_bias ? score + load(a.selection_bias + e) : score);
  }
  __syncwarp();
}

// The best, or the sum of the two best, of a group; in every lane.
__device__ __forceinline__ float score_group(const float* choice, int size, GroupScore kind) {
  float first = out_of_race(), second = out_of_race();
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kWarpSize) {
    const float value = load_shared(choice + i);
    second = larger_of(second, smaller_of(first, value));
    first = larger_of(first, value);
  }
  for (int step = kWarpSize / 2; step >= 1; step /= 2) {
    const float other_first = shuffle_xor(first, step), other_second = shuffle_xor(second, step);
    second = larger_of(larger_of(second, other_second), smaller_of(first, other_first));
    first = larger_of(first, other_first);
  }
  return kind == GroupScore::kMax || size == 1 ? first : first + second;
}

__device__ __forceinline__ void drop_groups(const RouterKnobs& knobs, const RouteMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x), size = knobs.num_experts / knobs.num_groups;
  for (int g = 0; g < knobs.num_groups; ++g) {
    const float score = score_group(memory.choice + g * size, size, knobs.group_score);
    if (lane == 0) store_shared(memory.group + g, score);
  }
  __syncwarp();
  uint64_t kept = 0;  // bit i: the expert lane + 32 i
  for (int i = 0; i < knobs.top_groups; ++i) {
    const int best = index_of_largest(memory.group, knobs.num_groups);
    for (int e = lane; e < knobs.num_experts; e += kWarpSize) {
      if (e / size == best) kept |= uint64_t{1} << (e / kWarpSize);
    }
    __syncwarp();
    if (lane == 0) store_shared(memory.group + best, out_of_race());
    __syncwarp();
  }
  for (int e = lane; e < knobs.num_experts; e += kWarpSize) {
    if ((kept >> (e / kWarpSize) & 1) == 0) store_shared(memory.choice + e, out_of_race());
  }
  __syncwarp();
}

// K experts one after the other; bit i of the result: this lane's expert lane + 32 i is chosen.
__device__ __forceinline__ uint64_t choose(const RouterKnobs& knobs, float* choice) {
  const int lane = static_cast<int>(threadIdx.x);
  uint64_t chosen = 0;
  for (int k = 0; k < knobs.top_k; ++k) {
    const int best = index_of_largest(choice, knobs.num_experts);
    if (best % kWarpSize == lane) {
      chosen |= uint64_t{1} << (best / kWarpSize);
      store_shared(choice + best, out_of_race());
    }
  }
  return chosen;
}

// Writes the chosen ids in ascending order, and leaves their scores in `picked` in that order.
__device__ __forceinline__ void list_chosen(const RouterKnobs& knobs, uint64_t chosen,
                                            const RouteMemory& memory, int32_t* ids) {
  const int lane = static_cast<int>(threadIdx.x);
  int count = 0;
  for (int first = 0; first < knobs.num_experts; first += kWarpSize) {
    const bool mine = (chosen >> (first / kWarpSize) & 1) != 0;
    const unsigned int lanes = ballot(mine);
    if (mine) {
      const int k = count + count_bits(lanes & ((1u << lane) - 1));
      store(ids + k, static_cast<int32_t>(first + lane));
      store_shared(memory.group + k, load_shared(memory.score + first + lane));
    }
    count += count_bits(lanes);
  }
  __syncwarp();
}

__device__ __forceinline__ void weigh(const RouterKnobs& knobs, const float* picked,
                                      float* weights) {
  float sum = 0;
  for (int k = 0; k < knobs.top_k; ++k) sum = sum + load_shared(picked + k);
  for (int k = static_cast<int>(threadIdx.x); k < knobs.top_k; k += kWarpSize) {
    float weight = load_shared(picked + k);
    if (knobs.renormalise) weight = divide(weight, sum + knobs.renormalise_eps);
    store(weights + k, weight * knobs.scale);
  }
}

__global__ void route_kernel(Route a) {
  const RouterKnobs& knobs = a.knobs;
  const int64_t token = blockIdx.x;
  float* shared = &shared_as<float>();
  const RouteMemory memory = {shared, shared + knobs.num_experts, shared + 2 * knobs.num_experts};
  const float* logits = a.logits + token * knobs.num_experts;
  int32_t* ids = a.expert_ids + token * knobs.top_k;
  bool finite = all_finite(logits, knobs.num_experts, false);
  if (finite) {
    score_experts(a, logits, memory);
    finite = all_finite(memory.choice, knobs.num_experts, true);
  }
  if (!finite) {
    if (threadIdx.x == 0) store(ids, int32_t{-1});
    return;
  }
  if (knobs.top_groups < knobs.num_groups) drop_groups(knobs, memory);
  list_chosen(knobs, choose(knobs, memory.choice), memory, ids);
  weigh(knobs, memory.group, a.weights + token * knobs.top_k);
}

void route(const Route& a, cudaStream_t stream) {
  check_router(a.knobs);
  launch(route_kernel,
         {.blocks = blocks_for(a.num_tokens, 1),
          .threads = kWarpSize,
          .shared_bytes = 3 * sizeof(float) * static_cast<size_t>(a.knobs.num_experts),
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
