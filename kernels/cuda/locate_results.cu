// Where results lie: a thread a choice. Bound by latency (three loads one after the other); each
// block first brings the ranks' first pairs into shared memory and finds a pair's rank there.
#include "kernels/cuda/intrinsics.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace colibri::cuda {

constexpr int kLocateThreads = 128;

// The last rank whose first pair is not after `pair`: ranks without pairs are passed over.
__device__ __forceinline__ int rank_of_pair(const int32_t* first_pair, int num_ranks,
                                            int32_t pair) {
  int low = 0, high = num_ranks;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (load_shared(first_pair + middle) <= pair) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void locate_results_kernel(LocateResults a) {
  int32_t* first_pair = &shared_as<int32_t>();
  const int thread = static_cast<int>(threadIdx.x);
  for (int rank = thread; rank < a.num_ranks; rank += kLocateThreads) {
    store_shared(first_pair + rank, load(a.pair_begin + load(a.row_begin + rank)));
  }
  __syncthreads();
  const int64_t choice = static_cast<int64_t>(blockIdx.x) * kLocateThreads + thread;
  if (choice >= a.num_tokens * a.top_k) return;
  const int32_t pair = load(a.pair_of_choice + choice);
  const int rank = rank_of_pair(first_pair, a.num_ranks, pair);
  int64_t offset = load(a.block_begin + rank);
  if (pair >= 0) {
    const int32_t place = pair - load_shared(first_pair + rank);
    if (place < load(a.max_results + rank)) {
      offset += place * a.hidden_size;
    } else {
      set_bits(a.flags, kFlagOverflow);
    }
  }
  store(a.result_offset + choice, offset);
}

void locate_results(const LocateResults& a, cudaStream_t stream) {
  launch(locate_results_kernel,
         {.blocks = blocks_for(a.num_tokens * a.top_k, kLocateThreads),
          .threads = kLocateThreads,
          .shared_bytes = sizeof(int32_t) * static_cast<size_t>(a.num_ranks),
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
