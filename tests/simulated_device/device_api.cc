// What a simulated GPU says about itself.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "device_state.h"
#include "settings.h"
#include "streams.h"

namespace colibri_sim {
namespace {

constexpr size_t kSharedPerBlock = 48 * 1024, kSharedOptin = 227 * 1024;
constexpr size_t kSharedPerMultiprocessor = 228 * 1024, kSharedReserved = 1024;

int number_in_machine(int device) { return settings().visible[static_cast<size_t>(device)]; }
int pci_bus(int device) { return 0x10 + number_in_machine(device); }

// FNV-1a, twice with different starts.
cudaUUID_t uuid_of(int device) {
  const auto number = static_cast<size_t>(number_in_machine(device));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string text = std::string(host) + " " + std::to_string(number);
  if (number < settings().labels.size()) text = settings().labels[number];
  cudaUUID_t uuid = {};
  for (int half = 0; half < 2; ++half) {
    uint64_t hash = 0xCBF29CE484222325u + static_cast<uint64_t>(half);
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    std::memcpy(uuid.bytes + 8 * half, &hash, sizeof hash);
  }
  return uuid;
}

cudaDeviceProp properties_of(int device) {
  const Settings& s = settings();
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof p.name, "Simulated GPU");
  p.uuid = uuid_of(device);
  p.totalGlobalMem = s.memory_of(device);
  p.sharedMemPerBlock = kSharedPerBlock;
  p.sharedMemPerBlockOptin = kSharedOptin;
  p.sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  p.reservedSharedMemPerBlock = kSharedReserved;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = s.capability_major;
  p.minor = s.capability_minor;
  p.multiProcessorCount = 4;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.cooperativeLaunch = 1;
  p.streamPrioritiesSupported = 1;
  p.asyncEngineCount = 3;
  p.pciBusID = pci_bus(device);
  p.memoryBusWidth = 5120;
  p.l2CacheSize = 50 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  return p;
}

cudaError_t attribute_of(cudaDeviceAttr attribute, int device, int* value) {
  const cudaDeviceProp p = properties_of(device);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return *value = p.maxThreadsPerBlock, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return *value = static_cast<int>(p.sharedMemPerBlock), cudaSuccess;
    case cudaDevAttrWarpSize:
      return *value = p.warpSize, cudaSuccess;
    case cudaDevAttrClockRate:
      return *value = 1'000'000, cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      return *value = p.multiProcessorCount, cudaSuccess;
    case cudaDevAttrCanMapHostMemory:
      return *value = p.canMapHostMemory, cudaSuccess;
    case cudaDevAttrPciBusId:
      return *value = p.pciBusID, cudaSuccess;
    case cudaDevAttrPciDeviceId:
      return *value = p.pciDeviceID, cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      return *value = 1'000'000, cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      return *value = p.memoryBusWidth, cudaSuccess;
    case cudaDevAttrL2CacheSize:
      return *value = p.l2CacheSize, cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return *value = p.maxThreadsPerMultiProcessor, cudaSuccess;
    case cudaDevAttrAsyncEngineCount:
      return *value = p.asyncEngineCount, cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
      return *value = p.unifiedAddressing, cudaSuccess;
    case cudaDevAttrPciDomainId:
      return *value = p.pciDomainID, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      return *value = p.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = p.minor, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return *value = static_cast<int>(p.sharedMemPerMultiprocessor), cudaSuccess;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return *value = p.regsPerMultiprocessor, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = static_cast<int>(p.sharedMemPerBlockOptin), cudaSuccess;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return *value = p.maxBlocksPerMultiProcessor, cudaSuccess;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return *value = static_cast<int>(p.reservedSharedMemPerBlock), cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

bool are_peers(int device, int peer) { return device != peer && settings().has_peer_access; }

cudaError_t set_peer(int peer, bool enabled) {
  if (!is_device(peer) || peer == current_device()) return cudaErrorInvalidDevice;
  if (!are_peers(current_device(), peer)) return cudaErrorPeerAccessUnsupported;
  std::vector<bool>& peers = device_state(current_device()).peers;
  peers.resize(static_cast<size_t>(settings().num_devices));
  const auto idx = static_cast<size_t>(peer);
  if (peers[idx] == enabled) {
    return enabled ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled;
  }
  peers[idx] = enabled;
  return cudaSuccess;
}

cudaError_t for_device(int device, cudaError_t (*body)(int, void*), void* out) {
  Guard guard(big_lock());
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  return remember(is_device(device) ? body(device, out) : cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace colibri_sim

using namespace colibri_sim;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().num_devices;
  return remember(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const auto fill = [](int ordinal, void* out) {
    *static_cast<cudaDeviceProp*>(out) = properties_of(ordinal);
    return cudaSuccess;
  };
  return for_device(device, fill, properties);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  Guard guard(big_lock());
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  return remember(attribute_of(attribute, device, value));
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  Guard guard(big_lock());
  if (!is_device(from) || !is_device(to) || from == to) return remember(cudaErrorInvalidDevice);
  *value = attribute != cudaDevP2PAttrPerformanceRank && are_peers(from, to) ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return remember(cudaErrorInvalidDevice);
  *can = are_peers(device, peer) ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int) {
  return call([&] { return set_peer(peer, true); });
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call([&] { return set_peer(peer, false); });
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  if (text == nullptr || length < 13) return remember(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", pci_bus(device));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  for (int i = 0; i < settings().num_devices; ++i) {
    char own[16];
    cudaDeviceGetPCIBusId(own, sizeof own, i);
    if (strcasecmp(own, text) == 0) return *device = i, cudaSuccess;
  }
  return remember(cudaErrorInvalidValue);
}
// Clears the error; memory and streams stay the caller's.
cudaError_t cudaDeviceReset() {
  Guard guard(big_lock());
  if (!is_device(current_device())) return remember(cudaErrorNoDevice);
  drop_work(current_device());
  device_state(current_device()).sticky = cudaSuccess;
  return cudaSuccess;
}

}  // extern "C"
