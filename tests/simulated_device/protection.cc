#include "protection.h"

#include <sys/mman.h>

#include "memory.h"
#include "settings.h"
#include "simulated_stream.h"

namespace colibri_sim {
namespace {

// -1: the processor or the system has none, or none is wanted.
int protection_key() {
  static const int key =
      settings().protection == Protection::kBest ? pkey_alloc(0, PKEY_DISABLE_ACCESS) : -1;
  return key;
}

bool has_key() { return protection_key() >= 0; }

thread_local int depth_of_thread = 0;
int depth_of_process = 0;

int& depth() { return has_key() ? depth_of_thread : depth_of_process; }

void set_open(bool open) {
  if (settings().protection == Protection::kNone) return;
  if (has_key()) {
    pkey_set(protection_key(), open ? 0 : PKEY_DISABLE_ACCESS);
    return;
  }
  for (const Allocation* one : all_allocations()) {
    if (one->kind != MemoryKind::kDevice) continue;
    mprotect(reinterpret_cast<void*>(one->map_begin + kPageBytes), one->map_bytes - 2 * kPageBytes,
             open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

}  // namespace

void guard_memory(void* memory, size_t bytes) {
  if (settings().protection == Protection::kNone) return;
  if (has_key()) {
    pkey_mprotect(memory, bytes, PROT_READ | PROT_WRITE, protection_key());
    if (depth() == 0) set_open(false);  // a thread older than the key
  } else if (depth() == 0) {
    mprotect(memory, bytes, PROT_NONE);
  }
}

void open_memory() {
  if (depth()++ == 0) set_open(true);
}
void close_memory() {
  if (--depth() == 0) set_open(false);
}
int open_depth() { return depth(); }
void set_open_depth(int value) {
  if ((depth() > 0) != (value > 0)) set_open(value > 0);
  depth() = value;
}

OpenDeviceMemory::OpenDeviceMemory() { open_memory(); }
OpenDeviceMemory::~OpenDeviceMemory() { close_memory(); }

namespace {
thread_local int depth_before_closing = 0;
}  // namespace

CloseDeviceMemory::CloseDeviceMemory() {
  depth_before_closing = open_depth();
  set_open_depth(0);
}
CloseDeviceMemory::~CloseDeviceMemory() { set_open_depth(depth_before_closing); }

}  // namespace colibri_sim
