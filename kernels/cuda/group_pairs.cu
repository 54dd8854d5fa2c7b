// Counting sort of pairs by slot: a block a slot. Each block reads all pairs' slots once, counts
// those before its own (where its group begins) and its own, then reads them again and puts its own
// in order by ballots: stable without atomics, scratch or a second launch, and no block waits for
// another. The price is num_slots times the reads, from the second-level cache; for decode the
// blocks are single warps that read a few times. Bound by latency.
#include "kernels/cuda/intrinsics.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

constexpr int kMostGroupWarps = 8;
constexpr int kPairsAWarp = 1024;  // before another warp joins
constexpr int kSlotsInFlight = 4;  // loads a lane starts before it needs the first

// Of each warp's stretch of pairs.
struct GroupMemory {
  int32_t lower[kMostGroupWarps];  // pairs of lower slots
  int32_t own[kMostGroupWarps];
};

struct PairRange {
  int32_t first;  // number of the first pair
  int32_t count;  // pairs that count
  int32_t num_rows;
  uint32_t flags;
};

// Rows in the middle of a plan become rows from 0 on; their number.
__device__ __forceinline__ int32_t enter_rows(GroupPairs& a) {
  if (a.row_range == nullptr) return load(a.num_rows);
  const int32_t first = load(a.row_range);
  a.pair_begin += first;
  if (a.row_token != nullptr) a.row_token += first;
  return load(a.row_range + 1) - first;
}

__device__ __forceinline__ PairRange pair_range(const GroupPairs& a, int32_t num_rows) {
  if (num_rows < 0 || num_rows > a.max_rows) return {0, 0, 0, kFlagBadMessage};
  const int32_t first = load(a.pair_begin), end = load(a.pair_begin + num_rows);
  const int32_t bounded = a.row_range == nullptr ? end : end - first;
  if (first < 0 || first > end || bounded > a.max_pairs) return {0, 0, 0, kFlagBadMessage};
  if (end - first <= a.max_results) return {first, end - first, num_rows, 0};
  return {first, static_cast<int32_t>(a.max_results), num_rows, kFlagOverflow};
}

__device__ __forceinline__ int sum_of_warp(int x) {
  for (int step = kWarpSize / 2; step >= 1; step /= 2) x += shuffle_xor(x, step);
  return x;
}

// Counts slots lower than `own`, and `own`, in [slot, end), over the warp's lanes. Slots that are
// not there (negative) are in neither.
__device__ __forceinline__ void count_slots(const int32_t* slot, const int32_t* end, int32_t own,
                                            int& num_lower, int& num_own) {
  num_lower = num_own = 0;
  for (slot += threadIdx.x; slot < end; slot += kSlotsInFlight * kWarpSize) {
    int32_t some[kSlotsInFlight];
    for (int i = 0; i < kSlotsInFlight; ++i) {
      const int32_t* at = slot + i * kWarpSize;
      some[i] = at < end ? load(at) : -1;
    }
    for (int i = 0; i < kSlotsInFlight; ++i) {
      num_lower += some[i] >= 0 && some[i] < own ? 1 : 0;
      num_own += some[i] == own ? 1 : 0;
    }
  }
  num_lower = sum_of_warp(num_lower);
  num_own = sum_of_warp(num_own);
}

// The row of pair number `pair`: the last that does not begin after it.
__device__ __forceinline__ int32_t row_of_pair(const GroupPairs& a, int32_t num_rows,
                                               int32_t pair) {
  int32_t low = 0, high = num_rows;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (load(a.pair_begin + middle) <= pair) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Puts the pairs [begin, end) of the range that ask for `own` at [at, ...) of the groups. First in
// order, as bare numbers where their offsets go; then each lane finds the rows of some: a search is
// a chain of loads, and this way all lanes search at once.
__device__ __forceinline__ void place_pairs(const GroupPairs& a, const PairRange& range,
                                            int32_t begin, int32_t end, int32_t own, int32_t at) {
  const int lane = static_cast<int>(threadIdx.x);
  const int32_t first_place = at;
  for (int32_t base = begin; base < end; base += kWarpSize) {
    const int32_t i = base + lane;
    const bool mine = i < end && load(a.slot + range.first + i) == own;
    const unsigned int lanes = ballot(mine);
    if (mine) store(a.out_offset + at + count_bits(lanes & ((1u << lane) - 1)), int64_t{i});
    at += count_bits(lanes);
  }
  __syncwarp();
  for (int32_t place = first_place + lane; place < at; place += kWarpSize) {
    const auto i = static_cast<int32_t>(load(a.out_offset + place));
    const int32_t row = row_of_pair(a, range.num_rows, range.first + i);
    store(a.pair_row + place, a.row_token == nullptr ? row : load(a.row_token + row));
    store(a.out_offset + place, i * a.hidden_size);
  }
}

// Block num_slots has no group: it writes where the last one ends, and the flags.
__global__ void group_pairs_kernel(GroupPairs a) {
  GroupMemory& memory = shared_as<GroupMemory>();
  const int warp = static_cast<int>(threadIdx.y), num_warps = static_cast<int>(blockDim.y);
  const bool leads = threadIdx.x == 0 && warp == 0;
  const auto own = static_cast<int32_t>(blockIdx.x);
  const PairRange range = pair_range(a, enter_rows(a));
  const int32_t stretch = (range.count + num_warps - 1) / num_warps;
  const int32_t begin = stretch * warp < range.count ? stretch * warp : range.count;
  const int32_t end = begin + stretch < range.count ? begin + stretch : range.count;
  const int32_t* slot = a.slot + range.first;
  int num_lower, num_own;
  count_slots(slot + begin, slot + end, own, num_lower, num_own);
  if (threadIdx.x == 0) {
    store_shared(&memory.lower[warp], num_lower);
    store_shared(&memory.own[warp], num_own);
  }
  __syncthreads();
  int32_t group_begin = 0, own_before = 0;
  for (int i = 0; i < num_warps; ++i) {
    group_begin += load_shared(&memory.lower[i]);
    if (i < warp) own_before += load_shared(&memory.own[i]);
  }
  if (leads) store(a.group_begin + own, group_begin);
  if (own < a.num_slots) {
    if (num_own > 0) place_pairs(a, range, begin, end, own, group_begin + own_before);
  } else if (leads) {
    const uint32_t flags = range.flags | (group_begin < range.count ? kFlagBadSlot : 0);
    if (flags != 0) set_bits(a.flags, flags);
  }
}

void group_pairs(const GroupPairs& a, cudaStream_t stream) {
  const unsigned int warps = blocks_for(a.max_pairs, kPairsAWarp);
  launch(group_pairs_kernel,
         {.blocks = static_cast<unsigned int>(a.num_slots) + 1,
          .threads = dim3(kWarpSize, warps < 1                 ? 1
                                     : warps < kMostGroupWarps ? warps
                                                               : kMostGroupWarps),
          .shared_bytes = sizeof(GroupMemory),
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
