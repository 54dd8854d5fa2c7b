// Every access of a kernel's thread to memory passes here: is it allowed, is it a race, count it.
#include <array>
#include <cstdio>

#include "counters.h"
#include "device_state.h"
#include "execution.h"
#include "memory.h"
#include "races.h"
#include "settings.h"

namespace colibri_sim {
namespace {

// By page, where an address was last found.
constexpr size_t kNumLookups = 64;
std::array<Allocation*, kNumLookups> lookups;

Allocation* look_up(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  Allocation*& known = lookups[at / kPageBytes % kNumLookups];
  if (known == nullptr || at < known->begin || at >= known->end()) {
    Allocation* found = find_allocation(address);
    if (found == nullptr) return nullptr;
    known = found;
  }
  return known;
}

const char* verb_of(Access access) {
  switch (access) {
    case Access::kGlobalLoad:
    case Access::kSharedLoad:
      return "reads ";
    case Access::kGlobalStore:
    case Access::kSharedStore:
      return "writes ";
    case Access::kGlobalAtomic:
    case Access::kSharedAtomic:
      return "updates ";
  }
  return "";
}

bool is_shared(Access access) {
  return access == Access::kSharedLoad || access == Access::kSharedStore ||
         access == Access::kSharedAtomic;
}
bool is_atomic(Access access) {
  return access == Access::kGlobalAtomic || access == Access::kSharedAtomic;
}
bool is_write(Access access) {
  return access == Access::kGlobalStore || access == Access::kSharedStore;
}

[[noreturn]] void refuse(Access access, size_t bytes, const std::string& where) {
  fail_thread(verb_of(access) + std::to_string(bytes) + " bytes at " + where,
              cudaErrorIllegalAddress);
}

void check_shared(Access access, const void* address, size_t bytes) {
  const Execution& now = execution();
  const auto offset = reinterpret_cast<intptr_t>(address) - reinterpret_cast<intptr_t>(now.shared);
  if (offset >= 0 && static_cast<size_t>(offset) + bytes <= now.shared_bytes) return;
  const bool is_near = offset >= -(1 << 20) && offset < (1 << 20);
  if (is_near && find_allocation(address) == nullptr) {
    refuse(access, bytes,
           "byte " + std::to_string(offset) + " of shared memory, which has " +
               std::to_string(now.shared_bytes));
  }
  refuse(access, bytes, address_text(address) + ", as if it were shared memory");
}

bool may_touch(const Allocation& one) {
  const int device = execution().call->device;
  if (one.kind != MemoryKind::kDevice) return one.kind == MemoryKind::kMapped;
  if (one.device == device) return true;
  const std::vector<bool>& peers = device_state(device).peers;
  return static_cast<size_t>(one.device) < peers.size() && peers[static_cast<size_t>(one.device)];
}

Allocation* check_global(Access access, const void* address, size_t bytes) {
  const Execution& now = execution();
  Allocation* one = look_up(address);
  if (one != nullptr && reinterpret_cast<uintptr_t>(address) + bytes <= one->end() &&
      may_touch(*one)) {
    return one;
  }
  const auto* at = static_cast<const unsigned char*>(address);
  if (now.shared_bytes > 0 && at >= now.shared && at < now.shared + now.shared_bytes) {
    refuse(access, bytes,
           "byte " + std::to_string(at - now.shared) +
               " of shared memory, as if it were global memory");
  }
  std::string where = address_text(address);
  if (one != nullptr && !may_touch(*one)) {
    where += one->kind == MemoryKind::kDevice ? ", of a device that is no enabled peer"
                                              : ", which is not mapped into the device";
  }
  refuse(access, bytes, where);
}

}  // namespace

void forget_lookups() { lookups.fill(nullptr); }

__attribute__((noinline)) void count_access(Access access, const void* address, size_t bytes) {
  const void* code = __builtin_return_address(0);
  if (execution().thread < 0) return;  // a stand-in on the host uses a kernel's helpers
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) {
    char text[120];
    std::snprintf(text, sizeof text, "%s%zu bytes at %p, which is not a multiple of that",
                  verb_of(access), bytes, address);
    fail_thread(text, cudaErrorMisalignedAddress);
  }
  Allocation* allocation = nullptr;
  if (is_shared(access)) {
    check_shared(access, address, bytes);
  } else {
    allocation = check_global(access, address, bytes);
  }
  if (settings().finds_races && !is_atomic(access)) {
    check_race(address, bytes, is_write(access), allocation);
  }
  if (settings().counts) count_one(access, address, bytes, code, allocation);
}

void fail_thread(const std::string& reason, cudaError_t error) {
  throw KernelFault(thread_text(execution().thread) + ": " + reason, error);
}
void fail_kernel(const char* reason) { fail_thread(reason); }

std::string short_thread_text(int thread) {
  const Execution& now = execution();
  const dim3 block = now.call->block;
  const auto n = static_cast<unsigned int>(thread);
  return "thread (" + std::to_string(n % block.x) + ", " + std::to_string(n / block.x % block.y) +
         ", " + std::to_string(n / (block.x * block.y)) + ")";
}

std::string thread_text(int thread) {
  const Execution& now = execution();
  return now.call->name + " block (" + std::to_string(now.block.x) + ", " +
         std::to_string(now.block.y) + ", " + std::to_string(now.block.z) + ") " +
         short_thread_text(thread);
}

bool describe_running_thread(char* text, size_t size) {
  const Execution& now = execution();
  if (now.call == nullptr || now.thread < 0 ||
      pthread_equal(now.host_thread, pthread_self()) == 0) {
    return false;
  }
  const uint3 t = threadIdx, b = now.block;
  std::snprintf(text, size, "%s block (%u, %u, %u) thread (%u, %u, %u)", now.call->name.c_str(),
                b.x, b.y, b.z, t.x, t.y, t.z);
  return true;
}

}  // namespace colibri_sim
