// What the tests of the simulated device share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "simulated_control.h"

namespace colibri_sim {

// Every test starts without faults, with late streams and a fixed seed, and must leave nothing.
class SimTest : public testing::Test {
 protected:
  void SetUp() override {
    set_stream_order(StreamOrder::kLate);
    set_seed(1);
    reset_faults();
    reset_counters();
  }
  void TearDown() override {
    reset_faults();
    for (void* one : device_memory_) cudaFree(one);
    for (void* one : pinned_memory_) cudaFreeHost(one);
    for (cudaStream_t one : streams_) cudaStreamDestroy(one);
    for (cudaEvent_t one : events_) cudaEventDestroy(one);
    EXPECT_EQ(leak_report(), "");
    reset_faults();
  }

  template <class T>
  T* device_array(size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
    device_memory_.push_back(memory);
    return static_cast<T*>(memory);
  }
  template <class T>
  T* filled(const std::vector<T>& values) {
    T* memory = device_array<T>(values.size());
    EXPECT_EQ(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyDefault),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return memory;
  }
  template <class T>
  T* pinned_array(size_t count, unsigned int flags = 0) {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, count * sizeof(T), flags), cudaSuccess);
    pinned_memory_.push_back(memory);
    return static_cast<T*>(memory);
  }
  cudaStream_t stream(unsigned int flags = cudaStreamNonBlocking) {
    cudaStream_t one = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&one, flags), cudaSuccess);
    streams_.push_back(one);
    return one;
  }
  cudaEvent_t event(unsigned int flags = cudaEventDisableTiming) {
    cudaEvent_t one = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&one, flags), cudaSuccess);
    events_.push_back(one);
    return one;
  }
  // Waits for the device.
  template <class T>
  std::vector<T> host(const T* memory, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDefault), cudaSuccess);
    return values;
  }
  // The last fault; "" when there is none.
  static std::string fault() { return faults().empty() ? "" : faults().back(); }

 private:
  std::vector<void*> device_memory_, pinned_memory_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
};

template <class... Expected, class... Actual>
cudaError_t run(void (*kernel)(Expected...), cudaLaunchConfig_t config, Actual... args) {
  return cudaLaunchKernelEx(&config, kernel, args...);
}

inline cudaLaunchConfig_t grid(dim3 blocks, dim3 threads, cudaStream_t stream = nullptr,
                               size_t shared_bytes = 0) {
  cudaLaunchConfig_t config;
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  config.dynamicSmemBytes = shared_bytes;
  return config;
}

}  // namespace colibri_sim
