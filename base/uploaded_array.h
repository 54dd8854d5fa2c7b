// Host arrays as the operations of a device read them.
#pragma once

#include <span>

#include "base/buffer.h"
#include "base/device.h"

namespace colibri {

// On the host the array itself, elsewhere a copy that is made in stream order and kept until the
// next one. T is trivially copyable.
template <class T>
class UploadedArray {
 public:
  explicit UploadedArray(Device& device) : device_(&device), memory_(device, 0) {}

  // From now on arrays of up to `count` keep the address of the copy.
  void reserve(size_t count) {
    if (device_->place() != Place::kHost) memory_.reserve_discarding(count * sizeof(T));
  }

  // `values` stays alive and unchanged until the work on `stream` that reads the result is done.
  const T* upload(std::span<const T> values, Stream& stream) {
    if (device_->place() == Place::kHost) return values.data();
    memory_.reserve_discarding(values.size_bytes());
    device_->copy(memory_.data(), values.data(), values.size_bytes(), stream);
    return memory_.as<T>();
  }

 private:
  Device* device_;
  Buffer memory_;
};

// A copy of `values` in memory of its own where the device computes, complete when it returns.
template <class T>
Buffer uploaded(std::span<const T> values, Device& device, Stream& stream) {
  Buffer memory(device, values.size_bytes());
  device.copy(memory.data(), values.data(), values.size_bytes(), stream);
  stream.synchronize();
  return memory;
}

}  // namespace colibri
