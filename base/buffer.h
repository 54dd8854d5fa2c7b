// Owning, zero-filled host memory, taken once and kept: page faults are dear.
#pragma once

#include <cstddef>
#include <utility>

namespace colibri {

// Aligned to 64 bytes; from 2 MB on an own mapping, aligned to 2 MB, that asks for huge pages and
// takes physical memory only where it is touched. Movable.
class Buffer {
 public:
  Buffer() = default;
  // Fails with kEnvironment naming `bytes` when the system has no such memory. 0 bytes is empty.
  explicit Buffer(size_t bytes);
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
  // Makes it at least `bytes` large; keeps nothing of the old contents when it grows.
  void reserve_discarding(size_t bytes);

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace colibri
