#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>

#include "device_state.h"
#include "protection.h"
#include "races.h"
#include "simulated_stream.h"

namespace colibri_sim {
namespace {

constexpr size_t kAlignment = 256;
constexpr unsigned char kCanary = 0xA5;  // around the allocation, in its pages
constexpr size_t kMaxFreed = 2048;       // freed allocations that stay reserved and known

struct Memory {
  std::map<uintptr_t, std::unique_ptr<Allocation>> live;  // by begin
  std::deque<std::unique_ptr<Allocation>> freed;
  int num_allocations = 0;
};

Memory& memory() {
  static auto* one = new Memory;
  return *one;
}

const char* kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice:
      return "device";
    case MemoryKind::kPinned:
      return "pinned";
    case MemoryKind::kMapped:
      return "mapped";
  }
  return "";
}

Allocation* add(std::unique_ptr<Allocation> one) {
  one->number = ++memory().num_allocations;
  Allocation* out = one.get();
  memory().live[one->begin] = std::move(one);
  return out;
}

// The inner pages are the allocation and a canary on both sides.
void check_canary(const Allocation& one) {
  OpenDeviceMemory open;
  const uintptr_t first = one.map_begin + kPageBytes;
  const uintptr_t last = one.map_begin + one.map_bytes - kPageBytes;
  const auto spoilt = [](uintptr_t from, uintptr_t to) {
    for (uintptr_t at = from; at < to; ++at) {
      if (*reinterpret_cast<const unsigned char*>(at) != kCanary) return at;
    }
    return uintptr_t{0};
  };
  uintptr_t at = spoilt(first, one.begin);
  if (at == 0) at = spoilt(one.end(), last);
  if (at == 0) return;
  report_fault("somebody wrote " + address_text(reinterpret_cast<const void*>(at)) +
               ", found when it was freed");
}

std::unique_ptr<Allocation> take(const void* begin) {
  const auto found = memory().live.find(reinterpret_cast<uintptr_t>(begin));
  std::unique_ptr<Allocation> one = std::move(found->second);
  memory().live.erase(found);
  forget_lookups();
  return one;
}

Allocation* exact(const void* begin) {
  const auto found = memory().live.find(reinterpret_cast<uintptr_t>(begin));
  return found == memory().live.end() ? nullptr : found->second.get();
}

}  // namespace

Allocation::Allocation() = default;
Allocation::~Allocation() = default;

Allocation* allocate_memory(size_t bytes, MemoryKind kind, int device) {
  install_fault_handler();
  const size_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* map = mmap(nullptr, whole + 2 * kPageBytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  auto one = std::make_unique<Allocation>();
  one->map_begin = reinterpret_cast<uintptr_t>(map);
  one->map_bytes = whole + 2 * kPageBytes;
  one->begin = one->map_begin + kPageBytes + (whole - bytes) / kAlignment * kAlignment;
  one->bytes = bytes;
  one->kind = kind;
  one->device = device;
  auto* inner = static_cast<unsigned char*>(map) + kPageBytes;
  mprotect(inner, whole, PROT_READ | PROT_WRITE);
  const size_t before = one->begin - one->map_begin - kPageBytes;
  std::memset(inner, kCanary, before);
  std::memset(inner + before, kPoison, bytes);
  std::memset(inner + before + bytes, kCanary, whole - before - bytes);
  if (kind == MemoryKind::kDevice) guard_memory(inner, whole);
  return add(std::move(one));
}

void register_memory(void* host, size_t bytes, MemoryKind kind) {
  auto one = std::make_unique<Allocation>();
  one->begin = reinterpret_cast<uintptr_t>(host);
  one->bytes = bytes;
  one->kind = kind;
  add(std::move(one));
}

bool release_memory(const void* begin, bool is_device) {
  Allocation* found = exact(begin);
  if (found == nullptr || (found->kind == MemoryKind::kDevice) != is_device ||
      found->map_begin == 0) {
    return false;
  }
  check_canary(*found);
  auto one = take(begin);
  auto* map = reinterpret_cast<void*>(one->map_begin);
  mprotect(map, one->map_bytes, PROT_NONE);
  madvise(map, one->map_bytes, MADV_DONTNEED);
  one->shadow.clear();
  one->is_freed = true;
  memory().freed.push_back(std::move(one));
  if (memory().freed.size() > kMaxFreed) {
    const Allocation& oldest = *memory().freed.front();
    munmap(reinterpret_cast<void*>(oldest.map_begin), oldest.map_bytes);
    memory().freed.pop_front();
  }
  return true;
}

bool unregister_memory(const void* begin) {
  const Allocation* found = exact(begin);
  if (found == nullptr || found->map_begin != 0) return false;
  take(begin);
  return true;
}

Allocation* find_allocation(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto next = memory().live.upper_bound(at);
  if (next == memory().live.begin()) return nullptr;
  Allocation* one = std::prev(next)->second.get();
  return at < one->end() ? one : nullptr;
}

std::vector<Allocation*> all_allocations() {
  std::vector<Allocation*> all;
  for (const auto& [begin, one] : memory().live) all.push_back(one.get());
  return all;
}

bool describe_address(uintptr_t address, char* text, size_t size) {
  const auto describe = [&](const Allocation& one) {
    const uintptr_t from = one.map_begin != 0 ? one.map_begin : one.begin;
    const uintptr_t to = one.map_begin != 0 ? from + one.map_bytes : one.end();
    if (address < from || address >= to) return false;
    const char* freed = one.is_freed ? "freed " : "";
    const char* kind = kind_name(one.kind);
    if (address < one.begin) {
      std::snprintf(text, size, "%zu bytes before %s%s allocation %d (%zu bytes)",
                    static_cast<size_t>(one.begin - address), freed, kind, one.number, one.bytes);
    } else if (address >= one.end()) {
      std::snprintf(text, size, "%zu bytes past the end of %s%s allocation %d (%zu bytes)",
                    static_cast<size_t>(address - one.end()), freed, kind, one.number, one.bytes);
    } else {
      std::snprintf(text, size, "byte %zu of %s%s allocation %d (%zu bytes)",
                    static_cast<size_t>(address - one.begin), freed, kind, one.number, one.bytes);
    }
    return true;
  };
  for (const auto& [begin, one] : memory().live) {
    if (describe(*one)) return true;
  }
  return std::any_of(memory().freed.rbegin(), memory().freed.rend(),
                     [&](const auto& one) { return describe(*one); });
}

std::string address_text(const void* address) {
  char text[160];
  if (describe_address(reinterpret_cast<uintptr_t>(address), text, sizeof text)) return text;
  std::snprintf(text, sizeof text, "%p, which is memory of the host that CUDA does not know",
                address);
  return text;
}

bool is_device_memory(const void* address, size_t bytes, int device) {
  Guard guard(big_lock());
  const Allocation* one = find_allocation(address);
  return one != nullptr && one->kind == MemoryKind::kDevice && one->device == device &&
         reinterpret_cast<uintptr_t>(address) + bytes <= one->end();
}

void name_allocation(const void* address, std::string name, size_t bytes) {
  Guard guard(big_lock());
  Allocation* one = find_allocation(address);
  if (one == nullptr) {
    report_fault("name_allocation: " + address_text(address));
    return;
  }
  const auto begin = reinterpret_cast<uintptr_t>(address);
  one->names.push_back({begin, bytes == 0 ? one->end() : begin + bytes, std::move(name)});
}

}  // namespace colibri_sim
