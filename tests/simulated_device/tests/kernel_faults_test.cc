// Planted faults of kernels: each is found, and the message says who did what.
#include <cstdlib>

#include "kernels/cuda/intrinsics.cuh"
#include "sim_rig.h"
#include "simulated_stream.h"

namespace colibri_sim {

using namespace colibri::cuda;

struct Words {
  int words[64];
};

__global__ void write_kernel(int* values, int idx) { store(values + idx, 1); }
__global__ void read_kernel(const int* values, int idx, int* out) {
  store(out, load(values + idx));
}
__global__ void shared_kernel(int idx) { store_shared(shared_as<Words>().words + idx, 1); }
__global__ void direct_kernel(int* values, int idx) { values[idx] = 1; }
__global__ void leaves_before_barrier_kernel() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}
__global__ void leaves_before_shuffle_kernel() {
  if (threadIdx.x == 5) return;
  shuffle_xor(1, 1);
}
__global__ void masks_differ_kernel() { __syncwarp(threadIdx.x < 16 ? 0xFFFFFFFFu : 0xFFFF0001u); }
__global__ void foreign_mask_kernel() { __syncwarp(1u); }
__global__ void operations_differ_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncwarp();
  } else {
    shuffle_xor(1, 1);
  }
}
__global__ void half_at_barrier_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncwarp(threadIdx.x == 32 ? 3u : 2u);
    __syncthreads();
    __syncthreads();
  }
}

class KernelFaults : public SimTest {
 protected:
  // Launches with one block of `threads` and gives the fault.
  template <class... Expected, class... Actual>
  std::string fault_of(void (*kernel)(Expected...), int threads, size_t shared, Actual... args) {
    reset_faults();
    const auto count = static_cast<unsigned int>(threads);
    EXPECT_EQ(run(kernel, grid(1, count, nullptr, shared), args...), cudaSuccess);
    error_ = cudaDeviceSynchronize();
    const std::string text = fault();
    reset_faults();
    return text;
  }
  cudaError_t error_ = cudaSuccess;
};

TEST_F(KernelFaults, WriteAndReadPastTheEnd) {
  int* values = device_array<int>(3);
  EXPECT_EQ(fault_of(write_kernel, 1, 0, values, 2), "");
  EXPECT_EQ(fault_of(write_kernel, 1, 0, values, 3).substr(0, 108),
            "colibri_sim::write_kernel block (0, 0, 0) thread (0, 0, 0): writes 4 bytes at 0 bytes "
            "past the end of device");
  EXPECT_EQ(error_, cudaErrorIllegalAddress);
  EXPECT_NE(fault_of(read_kernel, 1, 0, values, -1, values).find("reads 4 bytes at 4 bytes before"),
            std::string::npos);
}

TEST_F(KernelFaults, HostMemoryIsNoDeviceMemory) {
  int host_word = 0;
  EXPECT_NE(fault_of(write_kernel, 1, 0, &host_word, 0).find("memory of the host"),
            std::string::npos);
  int* pinned = pinned_array<int>(1);
  EXPECT_NE(fault_of(write_kernel, 1, 0, pinned, 0).find("not mapped into the device"),
            std::string::npos);
  int* mapped = pinned_array<int>(1, cudaHostAllocMapped);
  int* device_pointer = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&device_pointer, mapped, 0), cudaSuccess);
  EXPECT_EQ(fault_of(write_kernel, 1, 0, device_pointer, 0), "");
  EXPECT_EQ(*mapped, 1);
}

TEST_F(KernelFaults, FreedMemoryIsNamed) {
  int* values = nullptr;
  cudaMalloc(&values, 4);
  cudaFree(values);
  EXPECT_NE(fault_of(write_kernel, 1, 0, values, 0).find("byte 0 of freed device allocation"),
            std::string::npos);
}

TEST_F(KernelFaults, AddressThatIsNoMultipleOfItsSize) {
  auto* bytes = device_array<unsigned char>(8);
  EXPECT_NE(fault_of(write_kernel, 1, 0, reinterpret_cast<int*>(bytes + 2), 0).find("multiple"),
            std::string::npos);
  EXPECT_EQ(error_, cudaErrorMisalignedAddress);
}

TEST_F(KernelFaults, WritePastSharedMemory) {
  EXPECT_EQ(fault_of(shared_kernel, 1, sizeof(Words), 63), "");
  EXPECT_NE(fault_of(shared_kernel, 1, sizeof(Words), 64)
                .find("byte 256 of shared memory, which has 256"),
            std::string::npos);
}

TEST_F(KernelFaults, SharedMemoryAndGlobalMemoryAreNotTheSame) {
  const auto confused = [](int* values) { store_shared(values, 1); };
  EXPECT_NE(fault_of(static_cast<void (*)(int*)>(confused), 1, 16, device_array<int>(1))
                .find("as if it were shared memory"),
            std::string::npos);
}

TEST_F(KernelFaults, ThreadThatLeavesBeforeABarrier) {
  const std::string text = fault_of(leaves_before_barrier_kernel, 64, 0);
  EXPECT_NE(text.find("waits at its __syncthreads number 1, but thread (5, 0, 0) has left"),
            std::string::npos)
      << text;
  EXPECT_EQ(error_, cudaErrorLaunchFailure);
}

TEST_F(KernelFaults, LaneThatLeavesBeforeAShuffle) {
  const std::string text = fault_of(leaves_before_shuffle_kernel, 32, 0);
  EXPECT_NE(text.find("thread (5, 0, 0) has left the kernel"), std::string::npos) << text;
}

TEST_F(KernelFaults, MasksThatContradictEachOther) {
  const std::string text = fault_of(masks_differ_kernel, 32, 0);
  EXPECT_NE(text.find("0xFFFF0001"), std::string::npos) << text;
}

TEST_F(KernelFaults, MaskWithoutOnesOwnLane) {
  const std::string text = fault_of(foreign_mask_kernel, 32, 0);
  EXPECT_NE(text.find("its own is not among them"), std::string::npos) << text;
}

TEST_F(KernelFaults, MaskOfLanesThatTheBlockDoesNotHave) {
  const auto full = [] { __syncwarp(); };
  const std::string text = fault_of(static_cast<void (*)()>(full), 16, 0);
  EXPECT_NE(text.find("its warp has only 0x0000FFFF"), std::string::npos) << text;
}

TEST_F(KernelFaults, LanesThatMeetInDifferentOperations) {
  const std::string text = fault_of(operations_differ_kernel, 32, 0);
  EXPECT_NE(text.find("a shuffle"), std::string::npos) << text;
  EXPECT_NE(text.find("__syncwarp"), std::string::npos) << text;
}

TEST_F(KernelFaults, BarrierThatPartOfTheBlockNeverReaches) {
  const std::string text = fault_of(half_at_barrier_kernel, 64, 0);
  EXPECT_NE(text.find("block (0, 0, 0) thread"), std::string::npos) << text;
  EXPECT_EQ(error_, cudaErrorLaunchFailure);
}

TEST_F(KernelFaults, LaunchesThatAGpuRefuses) {
  EXPECT_EQ(run(leaves_before_barrier_kernel, grid(1, 1025)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(run(leaves_before_barrier_kernel, grid(0, 1)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(run(shared_kernel, grid(1, 1, nullptr, 49153), 0), cudaErrorInvalidValue);
  EXPECT_EQ(
      cudaFuncSetAttribute(shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024),
      cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536),
            cudaSuccess);
  EXPECT_EQ(run(shared_kernel, grid(1, 1, nullptr, 65536), 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(KernelFaults, HostThatTouchesDeviceMemoryDies) {
  int* values = device_array<int>(3);
  EXPECT_DEATH(values[1] = 7, "the host outside a kernel touched byte 4 of device allocation");
}

TEST_F(KernelFaults, KernelThatTouchesAGuardPageDirectlyDiesByName) {
  int* values = device_array<int>(1024);
  EXPECT_DEATH(
      {
        run(direct_kernel, grid(1, 1), values, 1024);
        cudaDeviceSynchronize();
      },
      "direct_kernel block .0, 0, 0. thread .0, 0, 0. touched 0 bytes past the end of device");
}

TEST_F(KernelFaults, MemoryThatWorkOpensIsOpen) {
  int* values = filled<int>({3});
  OpenDeviceMemory open;
  EXPECT_EQ(*values, 3);
}

// The way of processors without protection keys.
void touch_with_pages(bool inside) {
  setenv("COLIBRI_SIM_PROTECT", "2", 1);
  int *values = nullptr, *others = nullptr;
  cudaMalloc(&values, 4);
  cudaMemset(values, 0, 4);
  cudaDeviceSynchronize();
  cudaMalloc(&others, 4);
  if (inside) {
    OpenDeviceMemory open;
    *others = *values;
  } else {
    *others = *values;
  }
  cudaFree(values);
  cudaFree(others);
  std::exit(faults().empty() ? 0 : 1);
}

TEST(KernelFaultsOfPages, HostThatTouchesDeviceMemoryDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(touch_with_pages(true), testing::ExitedWithCode(0), "");
  EXPECT_DEATH(touch_with_pages(false), "the host outside a kernel touched byte 0 of device");
}

TEST_F(KernelFaults, PinnedMemoryEndsAtAGuardPage) {
  int* values = pinned_array<int>(64);
  EXPECT_DEATH(values[64] = 7, "0 bytes past the end of pinned allocation");
}

TEST_F(KernelFaults, WriteIntoTheGapBesideAnAllocationIsFoundWhenItIsFreed) {
  int* values = nullptr;
  cudaMallocHost(&values, 4);
  values[1] = 7;
  cudaFreeHost(values);
  EXPECT_NE(fault().find("wrote 0 bytes past the end of pinned allocation"), std::string::npos);
}

}  // namespace colibri_sim
