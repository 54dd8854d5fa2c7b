// What the tests of CUDA kernels share: a GPU (real or simulated), the CPU backend beside it, and
// arrays in the GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "tests/support/float_vectors.h"

namespace colibri {

struct CudaRig {
  CudaRig();
  ThreadPool pool;
  std::unique_ptr<Device> cpu_device, device;
  std::unique_ptr<Stream> cpu_stream, stream;
  std::unique_ptr<Ops> cpu, cuda;
};

// An array of the GPU's memory with the length of its vector.
template <class T>
class DeviceArray {
 public:
  DeviceArray(CudaRig& rig, const std::vector<T>& values) : DeviceArray(rig, values.size()) {
    rig.device->copy(data_, values.data(), bytes(), *rig.stream);
    rig.stream->synchronize();
  }
  DeviceArray(CudaRig& rig, size_t count) : rig_(rig), count_(count) {
    data_ = static_cast<T*>(rig.device->allocate(bytes()));
  }
  ~DeviceArray() { rig_.device->release(data_, bytes()); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  // Waits for the stream, then copies.
  std::vector<T> host() const {
    std::vector<T> values(count_);
    rig_.device->copy(values.data(), data_, bytes(), *rig_.stream);
    rig_.stream->synchronize();
    return values;
  }

 private:
  size_t bytes() const { return count_ * sizeof(T); }
  CudaRig& rig_;
  size_t count_;
  T* data_ = nullptr;
};

// Equal bits (any NaN equals any NaN); "" or what differs first.
std::string difference(const std::vector<float>& got, const std::vector<float>& want);

}  // namespace colibri
