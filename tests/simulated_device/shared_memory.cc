#include "shared_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "execution.h"
#include "memory.h"

namespace colibri_sim {
namespace {

constexpr size_t kMostBytes = 228 * 1024;
constexpr size_t kAlignment = 128;

unsigned char* arena() {
  static unsigned char* const memory = [] {
    void* map =
        mmap(nullptr, kMostBytes + 2 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    auto* inner = static_cast<unsigned char*>(map) + kPageBytes;
    mprotect(inner, kMostBytes, PROT_READ | PROT_WRITE);
    return inner;
  }();
  return memory;
}

}  // namespace

void take_shared_memory(size_t bytes) {
  execution().shared = arena() + (kMostBytes - bytes) / kAlignment * kAlignment;
  execution().shared_bytes = bytes;
}

void poison_shared_memory() {
  const Execution& now = execution();
  if (now.shared_bytes > 0) std::memset(now.shared, kPoison, now.shared_bytes);
}

}  // namespace colibri_sim
