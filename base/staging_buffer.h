// Host memory that a device copies to and from while the host goes on.
#pragma once

#include <cstddef>

#include "base/device.h"

namespace colibri {

// Zero filled; the device outlives it. Not movable: the device may be at work on it.
class StagingBuffer {
 public:
  StagingBuffer(Device& device, size_t bytes)
      : device_(device), bytes_(bytes), data_(device.allocate_staging(bytes)) {}
  ~StagingBuffer() { device_.release_staging(data_, bytes_); }
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  size_t size_bytes() const { return bytes_; }

 private:
  Device& device_;
  size_t bytes_;
  void* data_;
};

}  // namespace colibri
