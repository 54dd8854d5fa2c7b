// Counts of kernels whose traffic can be counted by hand: one warp unless said otherwise.
#include "kernels/cuda/intrinsics.cuh"
#include "sim_rig.h"

namespace colibri_sim {

using namespace colibri::cuda;

struct Words {
  alignas(16) int words[32 * 33];
};

template <class T>
__global__ void strided_load_kernel(const T* values, int stride, T* out) {
  const T value = load(values + static_cast<int>(threadIdx.x) * stride);
  if (threadIdx.x == 0) store(out, value);
}
__global__ void strided_shared_kernel(int stride) {
  store_shared(shared_as<Words>().words + static_cast<int>(threadIdx.x) * stride, 1);
}
template <class T>
__global__ void wide_shared_kernel(int stride) {
  auto* values = reinterpret_cast<T*>(shared_as<Words>().words);
  store_shared(values + static_cast<int>(threadIdx.x) * stride, T{});
}
__global__ void broadcast_shared_kernel() {
  int* words = shared_as<Words>().words;
  if (threadIdx.x == 0) store_shared(words, 1);
  __syncthreads();
  load_shared(words);
}
__global__ void loop_kernel(const int* values, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) load(values + i);
}

class Counters : public SimTest {
 protected:
  template <class... Expected, class... Actual>
  KernelCounters count(void (*kernel)(Expected...), const char* name, Actual... args) {
    reset_counters();
    EXPECT_EQ(run(kernel, grid(1, 32, nullptr, sizeof(Words)), args...), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return counters_of(name);
  }
  KernelCounters load_by(int stride) {
    const int* values = device_array<int>(32 * 8 + 8);
    return count(strided_load_kernel<int>, "strided_load_kernel", values, stride,
                 device_array<int>(1));
  }
};

TEST_F(Counters, NeighbouringWordsOfAWarpAreFourSectors) {
  const KernelCounters one = load_by(1);
  EXPECT_EQ(one.num_launches, 1u);
  EXPECT_EQ(one.loaded_bytes, 128u);
  EXPECT_EQ(one.loaded_sector_bytes, 128u);
  EXPECT_EQ(one.stored_bytes, 4u);
  EXPECT_EQ(one.stored_sector_bytes, 32u);
  EXPECT_EQ(one.num_global_instructions, 2u);
}

TEST_F(Counters, EverySecondWordIsEightSectors) {
  EXPECT_EQ(load_by(2).loaded_sector_bytes, 8u * 32);
}

TEST_F(Counters, EveryEighthWordIsASectorEach) {
  EXPECT_EQ(load_by(8).loaded_sector_bytes, 32u * 32);
}

TEST_F(Counters, OneWordForAllLanesIsOneSector) {
  const KernelCounters one = load_by(0);
  EXPECT_EQ(one.loaded_bytes, 128u);
  EXPECT_EQ(one.loaded_sector_bytes, 32u);
}

TEST_F(Counters, SixteenBytesALaneAreSixteenSectors) {
  const uint4* values = device_array<uint4>(32);
  const KernelCounters one =
      count(strided_load_kernel<uint4>, "strided_load_kernel", values, 1, device_array<uint4>(1));
  EXPECT_EQ(one.loaded_bytes, 512u);
  EXPECT_EQ(one.loaded_sector_bytes, 512u);
}

TEST_F(Counters, LanesOfALoopMeetTurnByTurn) {
  const KernelCounters one = count(loop_kernel, "loop_kernel", device_array<int>(80), 80);
  EXPECT_EQ(one.num_global_instructions, 3u);
  EXPECT_EQ(one.loaded_bytes, 320u);
  EXPECT_EQ(one.loaded_sector_bytes, 320u);
}

TEST_F(Counters, BankConflictsByStride) {
  const auto ways = [&](int stride) {
    return count(strided_shared_kernel, "strided_shared_kernel", stride).worst_bank_ways;
  };
  EXPECT_EQ(ways(1), 1);
  EXPECT_EQ(ways(2), 2);
  EXPECT_EQ(ways(32), 32);
  EXPECT_EQ(ways(33), 1);
  EXPECT_EQ(counters_of("strided_shared_kernel").num_shared_wavefronts, 1u);
}

TEST_F(Counters, OneWordForAllLanesIsNoConflict) {
  EXPECT_EQ(count(broadcast_shared_kernel, "broadcast_shared_kernel").worst_bank_ways, 1);
}

TEST_F(Counters, WideAccessesAreServedInParts) {
  const KernelCounters eight = count(wide_shared_kernel<uint2>, "wide_shared_kernel", 1);
  EXPECT_EQ(eight.worst_bank_ways, 1);
  EXPECT_EQ(eight.num_shared_phases, 2u);
  const KernelCounters sixteen = count(wide_shared_kernel<uint4>, "wide_shared_kernel", 1);
  EXPECT_EQ(sixteen.worst_bank_ways, 1);
  EXPECT_EQ(sixteen.num_shared_phases, 4u);
  EXPECT_EQ(count(wide_shared_kernel<uint4>, "wide_shared_kernel", 2).worst_bank_ways, 2);
}

TEST_F(Counters, BytesReadOfANamedAllocation) {
  int* values = device_array<int>(80);
  name_allocation(values, "weights");
  name_allocation(values, "first half", 160);
  const KernelCounters one = count(loop_kernel, "colibri_sim::loop_kernel", values, 80);
  EXPECT_EQ(one.loaded_bytes_of.at("weights"), 320u);
  EXPECT_EQ(one.loaded_bytes_of.at("first half"), 160u);
  EXPECT_EQ(one.max_shared_bytes, sizeof(Words));
}

TEST_F(Counters, BytesCopiedToTheHost) {
  int* values = device_array<int>(8);
  int on_host[8] = {};
  reset_counters();
  cudaMemcpy(values, on_host, sizeof on_host, cudaMemcpyHostToDevice);
  EXPECT_EQ(bytes_copied_to_host(), 0u);
  cudaMemcpy(on_host, values, 12, cudaMemcpyDeviceToHost);
  cudaMemcpy(on_host, values, 4, cudaMemcpyDeviceToHost);
  EXPECT_EQ(bytes_copied_to_host(), 16u);
}

}  // namespace colibri_sim
