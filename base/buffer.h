// Owning, zero-filled memory of the host or of a device, taken once and kept: page faults are dear.
#pragma once

#include <cstddef>
#include <utility>

namespace colibri {

class Device;

// Aligned to 64 bytes; from 64 KB on an own mapping that takes physical memory only where it is
// touched, from 2 MB on aligned to 2 MB and asking for huge pages. Movable.
class Buffer {
 public:
  Buffer() = default;
  // Fails with kEnvironment naming `bytes` when the system has no such memory. 0 bytes is empty.
  explicit Buffer(size_t bytes);
  // Memory where `device` computes: as above for the host, else its own, which data() points into
  // and the host does not read. The device outlives the buffer. Errors: also Device::allocate's.
  Buffer(Device& device, size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() { return data_; }
  const void* data() const { return data_; }
  size_t size_bytes() const { return bytes_; }
  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  // Makes it, in the same place, at least `bytes` large; keeps nothing of the old contents when it
  // grows.
  void reserve_discarding(size_t bytes);

 private:
  Device* device_ = nullptr;  // null: the host
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace colibri
