// CUDA's calls about memory.
#include "device_state.h"
#include "graphs.h"
#include "memory.h"
#include "settings.h"
#include "streams.h"

namespace colibri_sim {
namespace {

cudaError_t allocate(void** out, size_t bytes, MemoryKind kind) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = current_device();
  DeviceState& state = device_state(device);
  if (kind == MemoryKind::kDevice && bytes > settings().memory_of(device) - state.bytes_in_use) {
    return cudaErrorMemoryAllocation;
  }
  const Allocation* one = allocate_memory(bytes, kind, device);
  if (one == nullptr) return cudaErrorMemoryAllocation;
  if (kind == MemoryKind::kDevice) state.bytes_in_use += bytes;
  *out = reinterpret_cast<void*>(one->begin);
  return cudaSuccess;
}

// As on a GPU, freeing waits for the work of the device.
cudaError_t release(void* memory, bool of_device, const char* name) {
  if (memory == nullptr) return cudaSuccess;
  int device = current_device();
  {
    Guard guard(big_lock());
    const cudaError_t refused = refuse_while_capturing(name);
    if (refused != cudaSuccess) return remember(refused);
    if (const Allocation* one = find_allocation(memory)) device = one->device;
  }
  const cudaError_t pending = is_device(device) ? wait_for_device(device) : cudaSuccess;
  Guard guard(big_lock());
  const Allocation* one = find_allocation(memory);
  const size_t bytes = one == nullptr ? 0 : one->bytes;
  if (!release_memory(memory, of_device)) {
    report_fault(std::string(name) + " of " + address_text(memory) + ", which does not begin one");
    return remember(cudaErrorInvalidValue);
  }
  if (of_device) device_state(device).bytes_in_use -= bytes;
  return pending;
}

cudaError_t pin(void* memory, size_t bytes, unsigned int flags) {
  if (memory == nullptr || bytes == 0) return cudaErrorInvalidValue;
  if (find_allocation(memory) != nullptr) return cudaErrorHostMemoryAlreadyRegistered;
  const bool mapped = (flags & cudaHostRegisterMapped) != 0;
  register_memory(memory, bytes, mapped ? MemoryKind::kMapped : MemoryKind::kPinned);
  return cudaSuccess;
}

}  // namespace

size_t device_bytes_in_use(int device) {
  Guard guard(big_lock());
  return device_state(device).bytes_in_use;
}

}  // namespace colibri_sim

using namespace colibri_sim;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return call([&] {
    const cudaError_t refused = refuse_while_capturing("cudaMalloc");
    return refused != cudaSuccess ? refused : allocate(memory, bytes, MemoryKind::kDevice);
  });
}
cudaError_t cudaFree(void* memory) { return release(memory, true, "cudaFree"); }
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  return call([&] {
    const cudaError_t refused = refuse_while_capturing("cudaHostAlloc");
    if (refused != cudaSuccess) return refused;
    const bool mapped = (flags & cudaHostAllocMapped) != 0;
    return allocate(memory, bytes, mapped ? MemoryKind::kMapped : MemoryKind::kPinned);
  });
}
cudaError_t cudaFreeHost(void* memory) { return release(memory, false, "cudaFreeHost"); }
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned int flags) {
  return call([&] {
    const cudaError_t refused = refuse_while_capturing("cudaHostRegister");
    return refused != cudaSuccess ? refused : pin(memory, bytes, flags);
  });
}
cudaError_t cudaHostUnregister(void* memory) {
  const cudaError_t error = wait_for_device(current_device());
  if (error != cudaSuccess) return error;
  return call(
      [&] { return unregister_memory(memory) ? cudaSuccess : cudaErrorHostMemoryNotRegistered; });
}
// Stricter than CUDA with one address space: only memory that was asked for as mapped has a device
// pointer, so that a kernel that reads pinned memory by mistake is found.
cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned int) {
  return call([&] {
    const Allocation* one = find_allocation(host_pointer);
    if (one == nullptr || one->kind != MemoryKind::kMapped) return cudaErrorInvalidValue;
    *device_pointer = host_pointer;
    return cudaSuccess;
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call([&] {
    *attributes = {};
    auto* address = const_cast<void*>(pointer);
    attributes->device = -1;
    attributes->hostPointer = address;
    const Allocation* one = find_allocation(pointer);
    if (one == nullptr) return cudaSuccess;
    attributes->device = one->device;
    attributes->type = one->kind == MemoryKind::kDevice ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    if (one->kind != MemoryKind::kPinned) attributes->devicePointer = address;
    if (one->kind == MemoryKind::kDevice) attributes->hostPointer = nullptr;
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call([&] {
    *total_bytes = settings().memory_of(current_device());
    *free_bytes = *total_bytes - device_state(current_device()).bytes_in_use;
    return cudaSuccess;
  });
}

}  // extern "C"
