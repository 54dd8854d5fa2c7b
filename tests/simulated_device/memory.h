// Memory of the simulated devices and pinned memory of the host: every allocation ends at a guard
// page, starts out poisoned, and device memory is closed to the host while no work runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace colibri_sim {

inline constexpr size_t kPageBytes = 4096;
inline constexpr unsigned char kPoison = 0xFF;  // NaN in every float type, -1 in every integer

struct ShadowPage;  // races.h

enum class MemoryKind : unsigned char { kDevice, kPinned, kMapped };

struct NamedRange {
  uintptr_t begin = 0, end = 0;
  std::string name;
};

struct Allocation {
  uintptr_t begin = 0;
  size_t bytes = 0;
  uintptr_t map_begin = 0;  // with the guard pages on both sides; 0 for registered memory
  size_t map_bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  int number = 0;  // counts from 1 in the order of allocation
  bool is_freed = false;
  std::vector<NamedRange> names;
  std::vector<std::unique_ptr<ShadowPage>> shadow;
  Allocation();
  ~Allocation();
  uintptr_t end() const { return begin + bytes; }
};

// Null when the machine has no memory left.
Allocation* allocate_memory(size_t bytes, MemoryKind kind, int device);
// Host memory that already exists becomes pinned or mapped.
void register_memory(void* memory, size_t bytes, MemoryKind kind);
// Reports bytes written outside of the allocation. False when none of this kind begins there.
bool release_memory(const void* memory, bool is_device);
bool unregister_memory(const void* memory);
// The live allocation that holds `address`; null when none does.
Allocation* find_allocation(const void* address);
std::vector<Allocation*> all_allocations();
// Forgets which allocation an address was last found in; for when one goes.
void forget_lookups();

// Says where `address` lies among the allocations, freed ones too: "3 bytes past the end of device
// allocation 7 (400 bytes)". False when it lies near none. Allocates nothing.
bool describe_address(uintptr_t address, char* text, size_t size);
std::string address_text(const void* address);

// For work that is the host's own while the device's memory is open.
class CloseDeviceMemory {
 public:
  CloseDeviceMemory();
  ~CloseDeviceMemory();
  CloseDeviceMemory(const CloseDeviceMemory&) = delete;
  CloseDeviceMemory& operator=(const CloseDeviceMemory&) = delete;
};

// Names what happened when memory is touched that must not be, then aborts.
void install_fault_handler();

}  // namespace colibri_sim
