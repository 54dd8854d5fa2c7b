// The dispatch plan: a block a rank. Each block counts the rows and pairs of all lower ranks, which
// tells where its own begin, then walks the tokens in order and places its own by prefix sums: no
// atomics, no scratch, no block waits for another. The price is R times the reads, from the
// second-level cache. Bound by latency: three loads that depend on each other for each choice.
#include "base/error.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/order.cuh"

namespace colibri::cuda {

constexpr int kPlanWarps = 16;
constexpr int kPlanThreads = kPlanWarps * kWarpSize;

// Rows and pairs; of a thread, a warp or a block.
struct PlanCount {
  int32_t rows = 0, pairs = 0;
};

struct PlanMemory {
  int32_t rows[kPlanWarps];
  int32_t pairs[kPlanWarps];
};

__device__ __forceinline__ int thread_of_plan() {
  return static_cast<int>(threadIdx.y) * kWarpSize + static_cast<int>(threadIdx.x);
}

__device__ __forceinline__ const ExpertSlot* copy_of_choice(const PlanDispatch& a, int64_t token,
                                                            int64_t k) {
  const int32_t expert = load(a.expert_ids + token * a.top_k + k);
  const int32_t first = load(a.slot_begin + expert);
  const int32_t copies = load(a.slot_begin + expert + 1) - first;
  return a.slots + first + static_cast<int32_t>(token) % copies;
}

// Some of the ranks.
struct RankSet {
  uint64_t words[kMaxPlannedRanks / 64] = {};

  __device__ __forceinline__ void insert(int32_t rank) {
#pragma unroll
    for (int w = 0; w < kMaxPlannedRanks / 64; ++w) {
      // Without a branch, so that the words stay in registers.
      words[w] |= static_cast<uint64_t>(rank / 64 == w) << (rank % 64);
    }
  }
  __device__ __forceinline__ int size() const {
    int count = 0;
#pragma unroll
    for (int w = 0; w < kMaxPlannedRanks / 64; ++w) {
      count += count_bits(static_cast<uint32_t>(words[w])) +
               count_bits(static_cast<uint32_t>(words[w] >> 32));
    }
    return count;
  }
};

// Sums the threads' counts; `before` gets the sum of those before this thread's. Whole blocks.
__device__ __forceinline__ PlanCount sum_of_block(PlanCount mine, PlanMemory& memory,
                                                  PlanCount& before) {
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  PlanCount sum = mine;  // of this warp up to this lane
  for (int step = 1; step < kWarpSize; step *= 2) {
    const int32_t rows = shuffle(sum.rows, lane - step), pairs = shuffle(sum.pairs, lane - step);
    if (lane < step) continue;
    sum.rows += rows;
    sum.pairs += pairs;
  }
  __syncthreads();
  if (lane == kWarpSize - 1) {
    store_shared(memory.rows + warp, sum.rows);
    store_shared(memory.pairs + warp, sum.pairs);
  }
  __syncthreads();
  before = {sum.rows - mine.rows, sum.pairs - mine.pairs};
  PlanCount total;
  for (int w = 0; w < kPlanWarps; ++w) {
    const int32_t rows = load_shared(memory.rows + w), pairs = load_shared(memory.pairs + w);
    if (w < warp) {
      before.rows += rows;
      before.pairs += pairs;
    }
    total.rows += rows;
    total.pairs += pairs;
  }
  return total;
}

__device__ __forceinline__ bool makes_rows(const PlanDispatch& a, int64_t token, int64_t num_real) {
  return token < num_real && load(a.expert_ids + token * a.top_k) >= 0;
}

// This thread's share of what ranks below `rank` get.
__device__ __forceinline__ PlanCount count_lower(const PlanDispatch& a, int64_t num_real,
                                                 int32_t rank) {
  PlanCount count;
  for (int64_t token = thread_of_plan(); token < num_real; token += kPlanThreads) {
    if (!makes_rows(a, token, num_real)) continue;
    RankSet ranks;
    for (int64_t k = 0; k < a.top_k; ++k) {
      const int32_t to = load(&copy_of_choice(a, token, k)->rank);
      if (to >= rank) continue;
      ranks.insert(to);
      ++count.pairs;
    }
    count.rows += ranks.size();
  }
  return count;
}

__device__ __forceinline__ int32_t count_pairs(const PlanDispatch& a, int64_t token, int32_t rank) {
  int32_t count = 0;
  for (int64_t k = 0; k < a.top_k; ++k) {
    count += load(&copy_of_choice(a, token, k)->rank) == rank ? 1 : 0;
  }
  return count;
}

// Writes the token's row of `rank`, and its pairs from `at` on.
__device__ __forceinline__ void place_row(const PlanDispatch& a, int64_t token, int32_t rank,
                                          PlanCount at) {
  store(a.row_token + at.rows, static_cast<int32_t>(token));
  store(a.pair_begin + at.rows, at.pairs);
  for (int64_t k = 0; k < a.top_k; ++k) {
    const ExpertSlot* copy = copy_of_choice(a, token, k);
    if (load(&copy->rank) != rank) continue;
    store(a.slot + at.pairs, load(&copy->slot));
    store(a.pair_of_choice + token * a.top_k + k, at.pairs);
    ++at.pairs;
  }
}

// Tokens that make no rows.
__device__ __forceinline__ void mark_left_out(const PlanDispatch& a, int64_t num_real) {
  for (int64_t token = thread_of_plan(); token < a.num_tokens; token += kPlanThreads) {
    if (makes_rows(a, token, num_real)) continue;
    if (token < num_real) set_bits(a.flags, kFlagNotFinite);
    for (int64_t k = 0; k < a.top_k; ++k) {
      store(a.pair_of_choice + token * a.top_k + k, int32_t{-1});
    }
  }
}

__global__ void plan_dispatch_kernel(PlanDispatch a) {
  auto& memory = shared_as<PlanMemory>();
  const auto rank = static_cast<int32_t>(blockIdx.x);
  int64_t num_real = a.num_real_tokens == nullptr ? a.num_tokens : load(a.num_real_tokens);
  if (num_real > a.num_tokens) num_real = a.num_tokens;
  if (rank == 0) mark_left_out(a, num_real);
  PlanCount before;
  PlanCount at = sum_of_block(count_lower(a, num_real, rank), memory, before);
  const bool writes = thread_of_plan() == 0;
  if (writes) store(a.row_begin + rank, at.rows);
  if (writes) store(a.rank_pair_begin + rank, at.pairs);
  for (int64_t first = 0; first < num_real; first += kPlanThreads) {
    const int64_t token = first + thread_of_plan();
    PlanCount mine;
    if (makes_rows(a, token, num_real)) mine.pairs = count_pairs(a, token, rank);
    mine.rows = mine.pairs > 0 ? 1 : 0;
    const PlanCount total = sum_of_block(mine, memory, before);
    if (mine.rows > 0) {
      place_row(a, token, rank, {at.rows + before.rows, at.pairs + before.pairs});
    }
    at = {at.rows + total.rows, at.pairs + total.pairs};
  }
  if (!writes || rank + 1 < a.num_ranks) return;
  store(a.row_begin + a.num_ranks, at.rows);
  store(a.rank_pair_begin + a.num_ranks, at.pairs);
  store(a.pair_begin + at.rows, at.pairs);
}

void plan_dispatch(const PlanDispatch& a, cudaStream_t stream) {
  check(a.num_ranks >= 1 && a.num_ranks <= kMaxPlannedRanks, "a plan for ", a.num_ranks,
        " ranks, want 1 to ", kMaxPlannedRanks);
  launch(plan_dispatch_kernel,
         {.blocks = static_cast<unsigned int>(a.num_ranks),
          .threads = dim3(kWarpSize, kPlanWarps),
          .shared_bytes = sizeof(PlanMemory),
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
