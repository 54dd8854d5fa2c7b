// Two threads that touch a word without an order between them are found; with one they are not.
#include "kernels/cuda/intrinsics.cuh"
#include "sim_rig.h"

namespace colibri_sim {

using namespace colibri::cuda;

struct Words {
  int words[64];
};

__global__ void neighbour_kernel(bool has_barrier) {
  int* words = shared_as<Words>().words;
  store_shared(words + threadIdx.x, 1);
  if (has_barrier) __syncthreads();
  load_shared(words + (threadIdx.x + 1) % blockDim.x);
}
__global__ void reuse_kernel(bool has_second_barrier) {
  int* words = shared_as<Words>().words;
  for (int i = 0; i < 2; ++i) {
    store_shared(words + threadIdx.x, i);
    __syncthreads();
    load_shared(words + (threadIdx.x + 1) % blockDim.x);
    if (has_second_barrier) __syncthreads();
  }
}
// Both halves of a warp work on their own; lane 0 of each writes, the others read.
__global__ void half_warps_kernel(unsigned int low, unsigned int high) {
  int* words = shared_as<Words>().words;
  const int half = static_cast<int>(threadIdx.x) / 16;
  if (threadIdx.x % 16 == 0) store_shared(words + half, 1);
  __syncwarp(half == 0 ? low : high);
  load_shared(words + half);
}
__global__ void shuffle_orders_kernel() {
  int* words = shared_as<Words>().words;
  store_shared(words + threadIdx.x, 1);
  shuffle_xor(1, 1);
  load_shared(words + (threadIdx.x ^ 7));
}
__global__ void same_word_kernel(int* word) { store(word, 1); }
__global__ void blocks_read_kernel(const int* word, int* out) {
  store(out + blockIdx.x, load(word));
  if (blockIdx.x == 1) store(const_cast<int*>(word), 2);
}
__global__ void halves_of_a_word_kernel(uint16_t* halves) {
  store(halves + threadIdx.x, static_cast<uint16_t>(threadIdx.x));
}
__global__ void add_kernel(int* sum) {
  atomic_add(sum, 2);
  Words& shared = shared_as<Words>();
  if (threadIdx.x == 0) store_shared(shared.words, 0);
  __syncthreads();
  atomic_add_shared(shared.words, 1);
  __syncthreads();
  if (threadIdx.x == 0) store(sum + 1 + blockIdx.x, load_shared(shared.words));
}

// Thread `writer` writes what all others read.
__global__ void one_writes_kernel(int writer) {
  int* words = shared_as<Words>().words;
  if (static_cast<int>(threadIdx.x) == writer) {
    store_shared(words, 1);
  } else {
    load_shared(words);
  }
}

class Races : public SimTest {
 protected:
  template <class... Expected, class... Actual>
  std::string fault_of(void (*kernel)(Expected...), int blocks, int threads, Actual... args) {
    reset_faults();
    const auto num_blocks = static_cast<unsigned int>(blocks);
    const auto num_threads = static_cast<unsigned int>(threads);
    EXPECT_EQ(run(kernel, grid(num_blocks, num_threads, nullptr, sizeof(Words)), args...),
              cudaSuccess);
    cudaDeviceSynchronize();
    const std::string text = fault();
    reset_faults();
    return text;
  }
};

TEST_F(Races, MissingBarrierIsFoundForEverySeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    set_seed(seed);
    const std::string text = fault_of(neighbour_kernel, 1, 64, false);
    EXPECT_NE(text.find("race"), std::string::npos) << "seed " << seed;
    EXPECT_NE(text.find(" of shared memory, which thread ("), std::string::npos) << text;
  }
}

TEST_F(Races, BarrierOrders) { EXPECT_EQ(fault_of(neighbour_kernel, 3, 64, true), ""); }

TEST_F(Races, MissingBarrierBeforeAWordIsWrittenAgain) {
  EXPECT_NE(fault_of(reuse_kernel, 1, 64, false).find("race"), std::string::npos);
  EXPECT_EQ(fault_of(reuse_kernel, 1, 64, true), "");
}

TEST_F(Races, ReadAndWriteAreFoundInWhicheverOrderTheyRun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    set_seed(seed);
    EXPECT_NE(fault_of(one_writes_kernel, 1, 2, 0).find("race"), std::string::npos) << seed;
    EXPECT_NE(fault_of(one_writes_kernel, 1, 64, 40).find("race"), std::string::npos) << seed;
  }
}

TEST_F(Races, HalfWarpsOrderThemselves) {
  EXPECT_EQ(fault_of(half_warps_kernel, 1, 32, 0x0000FFFFu, 0xFFFF0000u), "");
}

TEST_F(Races, MeetingOfOtherLanesDoesNotOrder) {
  const auto kernel = +[] {
    int* words = shared_as<Words>().words;
    if (threadIdx.x == 0) store_shared(words, 1);
    if (threadIdx.x != 0) __syncwarp(0xFFFFFFFEu);
    load_shared(words);
  };
  EXPECT_NE(fault_of(kernel, 1, 32).find("race"), std::string::npos);
}

TEST_F(Races, ShuffleOrdersTheLanesOfAWarp) {
  EXPECT_EQ(fault_of(shuffle_orders_kernel, 1, 64), "");
}

TEST_F(Races, TwoThreadsThatWriteOneWordOfGlobalMemory) {
  int* word = device_array<int>(1);
  EXPECT_EQ(fault_of(same_word_kernel, 1, 1, word), "");
  const std::string text = fault_of(same_word_kernel, 1, 2, word);
  EXPECT_NE(text.find("writes byte 0 of device allocation"), std::string::npos) << text;
}

TEST_F(Races, BlocksAreInNoOrder) {
  int* word = device_array<int>(1);
  const std::string text = fault_of(same_word_kernel, 2, 1, word);
  EXPECT_NE(text.find("thread (0, 0, 0) of block ("), std::string::npos) << text;
  int* out = device_array<int>(8);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    set_seed(seed);
    EXPECT_NE(fault_of(blocks_read_kernel, 8, 1, word, out).find("race"), std::string::npos);
  }
}

TEST_F(Races, TwoLaunchesOfAStreamAreInOrder) {
  int* word = device_array<int>(1);
  EXPECT_EQ(fault_of(same_word_kernel, 1, 1, word), "");
  EXPECT_EQ(fault_of(same_word_kernel, 1, 1, word), "");
}

TEST_F(Races, PartsOfAWordAreTheirOwn) {
  EXPECT_EQ(fault_of(halves_of_a_word_kernel, 1, 64, device_array<uint16_t>(64)), "");
}

TEST_F(Races, AtomicAddsAreNoRaceAndAddUp) {
  int* sum = filled<int>({0, 0, 0, 0});
  EXPECT_EQ(fault_of(add_kernel, 3, 64, sum), "");
  EXPECT_EQ(host(sum, 4), (std::vector<int>{3 * 64 * 2, 64, 64, 64}));
}

}  // namespace colibri_sim
