// What the tests around NCCL share: arrays in device memory and a communicator of the stand-in.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/cuda_device.h"

namespace colibri {

// Throws what was expected where it is not so.
inline void expect_that(bool is_so, const std::string& what) {
  if (!is_so) throw std::runtime_error("not so: " + what);
}

// Numbers in the memory of the thread's current device.
class DeviceNumbers {
 public:
  DeviceNumbers(Device& device, Stream& stream, const std::vector<int32_t>& values)
      : device_(device), stream_(stream), count_(values.size()) {
    data_ = static_cast<int32_t*>(device.allocate(bytes()));
    set(values);
  }
  ~DeviceNumbers() { device_.release(data_, bytes()); }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;

  int32_t* data() { return data_; }
  void set(const std::vector<int32_t>& values) {
    device_.copy(data_, values.data(), bytes(), stream_);
    stream_.synchronize();
  }
  // Waits for the stream.
  std::vector<int32_t> get() const {
    std::vector<int32_t> values(count_);
    device_.copy(values.data(), data_, bytes(), stream_);
    stream_.synchronize();
    return values;
  }

 private:
  size_t bytes() const { return count_ * sizeof(int32_t); }
  Device& device_;
  Stream& stream_;
  size_t count_;
  int32_t* data_ = nullptr;
};

// `first`, `first` + 1, ...
std::vector<int32_t> count_from(int32_t first, size_t count);

// One rank's communicator of the stand-in, and a stream of its device.
class NcclRig {
 public:
  // Device `ordinal`; the id of a rank alone is made here. Ends init, or throws its error's text.
  NcclRig(int ordinal, int num_ranks, int rank, const ncclUniqueId& id, bool is_blocking);
  ~NcclRig();
  NcclRig(const NcclRig&) = delete;
  NcclRig& operator=(const NcclRig&) = delete;

  cudaStream_t native() { return static_cast<cudaStream_t>(stream->native_handle()); }
  ncclResult_t async_error();
  // Lets work go on until the stream is done or `ms` have passed; tells which.
  bool runs_dry_within(int64_t ms);
  // Gives the communicator away: destroyed at the end no more.
  void abort();

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  ncclComm_t comm = nullptr;
};

ncclUniqueId new_nccl_id();

}  // namespace colibri
