#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace colibri {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX / 2) {
    fail(ErrorKind::kEnvironment, "cannot take ", bytes, " bytes of memory: more than addressable");
  }
  const bool large = bytes >= kHugePageBytes;
  const size_t alignment = large ? kHugePageBytes : 64;
  const size_t rounded = round_up(bytes, alignment);
  data_ = std::aligned_alloc(alignment, rounded);
  if (data_ == nullptr) {
    fail(ErrorKind::kEnvironment, "cannot take ", bytes,
         " bytes of memory; free some, or use more ranks or a smaller --max-context");
  }
  if (large) madvise(data_, rounded, MADV_HUGEPAGE);  // advice: refused is fine
  std::memset(data_, 0, rounded);
}

Buffer::~Buffer() { std::free(data_); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Buffer::reserve_discarding(size_t bytes) {
  if (bytes > bytes_) *this = Buffer(bytes);
}

}  // namespace colibri
