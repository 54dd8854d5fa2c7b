// What the simulated GPUs say about themselves, memory that ends, errors' names.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "kernels/cuda/intrinsics.cuh"
#include "sim_rig.h"

namespace colibri_sim {

class Devices : public SimTest {};

__global__ void nothing_kernel() {}

TEST_F(Devices, PropertiesNameTheDevice) {
  cudaDeviceProp p;
  ASSERT_EQ(cudaGetDeviceProperties(&p, 0), cudaSuccess);
  EXPECT_STREQ(p.name, "Simulated GPU");
  EXPECT_EQ(p.major, 9);
  EXPECT_EQ(p.sharedMemPerBlockOptin, 232448u);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  EXPECT_EQ(value, p.multiProcessorCount);
  EXPECT_EQ(cudaGetDeviceProperties(&p, 9), cudaErrorInvalidDevice);
}

TEST_F(Devices, BusIdIsFoundAgain) {
  char text[16];
  int device = -1;
  ASSERT_EQ(cudaDeviceGetPCIBusId(text, sizeof text, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetByPCIBusId(&device, text), cudaSuccess);
  EXPECT_EQ(device, 0);
}

TEST_F(Devices, MemoryEnds) {
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(free_bytes, total_bytes);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, total_bytes + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  device_array<char>(1000);
  cudaMemGetInfo(&free_bytes, &total_bytes);
  EXPECT_EQ(total_bytes - free_bytes, 1000u);
}

TEST_F(Devices, AllocationsAreAlignedTo256Bytes) {
  for (const size_t bytes : {1, 255, 257, 4096, 5000}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(device_array<char>(bytes)) % 256, 0u) << bytes;
  }
}

TEST_F(Devices, PointersTellWhatTheyAre) {
  cudaPointerAttributes a;
  EXPECT_EQ(cudaPointerGetAttributes(&a, device_array<int>(1)), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeDevice);
  EXPECT_EQ(cudaPointerGetAttributes(&a, pinned_array<int>(1)), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeHost);
  int word = 0;
  EXPECT_EQ(cudaPointerGetAttributes(&a, &word), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
}

TEST_F(Devices, CopyWhoseDirectionOrLengthIsWrongIsRefused) {
  int* values = device_array<int>(2);
  int word[4] = {};
  EXPECT_EQ(cudaMemcpy(values, word, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(values, word, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

TEST_F(Devices, FreeingWhatIsNoAllocationIsRefused) {
  int* values = device_array<int>(2);
  EXPECT_EQ(cudaFree(values + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(values), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(Devices, ErrorsHaveTheToolkitsNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress),
               "an illegal memory access was encountered");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
}

TEST_F(Devices, LeakReportNamesWhatLives) {
  void* memory = nullptr;
  cudaMalloc(&memory, 12);
  EXPECT_NE(leak_report().find("(12 bytes) of device 0 was not freed"), std::string::npos);
  cudaFree(memory);
  EXPECT_EQ(leak_report(), "");
}

TEST_F(Devices, OccupancyIsBoundedBySharedMemory) {
  int num_blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&num_blocks, nothing_kernel, 128, 0),
            cudaSuccess);
  EXPECT_EQ(num_blocks, 16);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&num_blocks, nothing_kernel, 128, 45 * 1024);
  EXPECT_EQ(num_blocks, 4);
}

// What depends on the environment is looked at in a program of its own.
void with_three_devices() {
  setenv("COLIBRI_SIM_DEVICES", "3", 1);
  setenv("COLIBRI_SIM_UUIDS", "a,b,a", 1);
  setenv("COLIBRI_SIM_MEMORY", "1000,2000", 1);
  const auto want = [](bool fact, const char* text) {
    if (!fact) std::fprintf(stderr, "not so: %s\n", text);
    if (!fact) std::exit(1);
  };
  int count = 0;
  cudaGetDeviceCount(&count);
  want(count == 3, "three devices");
  cudaDeviceProp p[3];
  for (int i = 0; i < 3; ++i) cudaGetDeviceProperties(&p[i], i);
  want(std::memcmp(&p[0].uuid, &p[2].uuid, 16) == 0, "forced duplicate");
  want(std::memcmp(&p[0].uuid, &p[1].uuid, 16) != 0, "others differ");
  want(p[0].totalGlobalMem == 1000, "memory");
  want(p[1].totalGlobalMem == 2000 && p[2].totalGlobalMem == 2000, "memory of the last named");
  cudaSetDevice(2);
  int of_thread = -1;
  std::thread([&] { cudaGetDevice(&of_thread); }).join();
  want(of_thread == 0, "each thread has its own current device");
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaSetDevice(1);
  want(run(nothing_kernel, grid(1, 1, stream)) == cudaErrorInvalidResourceHandle,
       "a stream belongs to its device");
  std::exit(0);
}

// No fixture: it would read the environment before.
TEST(DevicesOfTheEnvironment, AreAsManyAsItSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(with_three_devices(), testing::ExitedWithCode(0), "");
}

}  // namespace colibri_sim
