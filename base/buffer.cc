#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/device.h"
#include "base/error.h"

namespace colibri {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

// From here on a mapping of its own, which need not be filled with zeros, is cheaper than the heap.
constexpr size_t kLeastMapping = size_t{64} << 10;

bool is_mapping(size_t bytes) { return bytes >= kLeastMapping; }

[[noreturn]] void fail_no_memory(size_t bytes) {
  fail(ErrorKind::kEnvironment, "cannot take ", bytes,
       " bytes of memory; free some, or use more ranks or a smaller --max-context");
}

size_t mapped_bytes(size_t bytes) {
  if (bytes < kHugePageBytes) return bytes;
  return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

// A fresh mapping is zero and costs nothing until touched.
char* map_zeros(size_t bytes) {
  void* raw = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) fail_no_memory(bytes);
  return static_cast<char*>(raw);
}

// The overhang that aligns it is given back.
void* map_aligned(size_t bytes) {
  if (bytes < kHugePageBytes) return map_zeros(bytes);
  const size_t rounded = mapped_bytes(bytes);
  char* first = map_zeros(rounded + kHugePageBytes);
  const size_t misaligned = reinterpret_cast<size_t>(first) % kHugePageBytes;
  const size_t head = misaligned == 0 ? 0 : kHugePageBytes - misaligned;
  if (head > 0) munmap(first, head);
  munmap(first + head + rounded, kHugePageBytes - head);
  madvise(first + head, rounded, MADV_HUGEPAGE);  // advice: refused is fine
  return first + head;
}

void* allocate_small(size_t bytes) {
  const size_t rounded = (bytes + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, rounded);
  if (memory == nullptr) fail_no_memory(bytes);
  std::memset(memory, 0, rounded);
  return memory;
}

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX / 2) fail_no_memory(bytes);
  data_ = is_mapping(bytes) ? map_aligned(bytes) : allocate_small(bytes);
}

Buffer::Buffer(Device& device, size_t bytes) {
  if (device.place() == Place::kHost) {
    *this = Buffer(bytes);
    return;
  }
  device_ = &device;
  data_ = bytes == 0 ? nullptr : device.allocate(bytes);
  bytes_ = bytes;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_ != nullptr) {
    device_->release(data_, bytes_);
  } else if (is_mapping(bytes_)) {
    munmap(data_, mapped_bytes(bytes_));
  } else {
    std::free(data_);
  }
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Buffer::reserve_discarding(size_t bytes) {
  if (bytes <= bytes_) return;
  Device* const device = device_;
  *this = Buffer();  // the old memory first: both may not fit
  *this = device == nullptr ? Buffer(bytes) : Buffer(*device, bytes);
}

}  // namespace colibri
