#include "topology/probe_cuda.h"

#include <cuda_runtime.h>

#include <cstdio>

#include "base/cuda_check.h"

namespace colibri {
namespace {

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

std::string bus_id_text(const cudaDeviceProp& properties) {
  char text[32];
  std::snprintf(
      text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(properties.pciDomainID),
      static_cast<unsigned>(properties.pciBusID), static_cast<unsigned>(properties.pciDeviceID));
  return text;
}

PeerLink link_between(int from, int to) {
  int reaches = 0, atomics = 0;
  if (from == to) return PeerLink::kNone;
  cuda_check(cudaDeviceCanAccessPeer(&reaches, from, to), "asking for peer access");
  if (reaches == 0) return PeerLink::kNone;
  cuda_check(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to),
             "asking for peer atomics");
  return atomics != 0 ? PeerLink::kAtomic : PeerLink::kDirect;
}

GpuInfo read_gpu(int ordinal, int count) {
  cudaDeviceProp properties;
  cuda_check(cudaGetDeviceProperties(&properties, ordinal), "reading a GPU's properties");
  GpuInfo gpu;
  gpu.ordinal = ordinal;
  gpu.name = properties.name;
  gpu.uuid = uuid_text(properties.uuid);
  gpu.major = properties.major;
  gpu.minor = properties.minor;
  gpu.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  gpu.num_multiprocessors = properties.multiProcessorCount;
  gpu.pci_bus_id = bus_id_text(properties);
  for (int peer = 0; peer < count; ++peer) gpu.peers.push_back(link_between(ordinal, peer));
  return gpu;
}

// CUDA tells a missing driver and an old one by one and the same error.
std::string problem_of(cudaError_t error, const GpuProbe& probe) {
  const std::string words =
      std::string(": ") + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
  if (probe.driver_version == 0) return "no NVIDIA driver is loaded here" + words;
  if (probe.driver_version / 1000 < probe.runtime_version / 1000) {
    return "the NVIDIA driver knows CUDA " + cuda_version_text(probe.driver_version) +
           ", this build wants " + cuda_version_text(probe.runtime_version) +
           ": update the driver, or build with an older toolkit" + words;
  }
  if (error == cudaErrorNoDevice) {
    return "the NVIDIA driver shows this process no GPU (CUDA_VISIBLE_DEVICES, or a container "
           "without --gpus)" +
           words;
  }
  return "the GPUs cannot be used" + words;
}

}  // namespace

GpuProbe probe_gpus() {
  GpuProbe probe;
  int count = 0;
  // Version calls answer without a driver, the driver's with 0.
  if (cudaDriverGetVersion(&probe.driver_version) != cudaSuccess) probe.driver_version = 0;
  cuda_check(cudaRuntimeGetVersion(&probe.runtime_version), "asking for the runtime's version");
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();  // it was met here; later calls start afresh
    probe.problem = problem_of(error != cudaSuccess ? error : cudaErrorNoDevice, probe);
    return probe;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    probe.gpus.push_back(read_gpu(ordinal, count));
  }
  return probe;
}

GpuMemory read_gpu_memory(int ordinal) {
  size_t free_bytes = 0, total_bytes = 0;
  cuda_check(cudaSetDevice(ordinal), "choosing the GPU");
  cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the GPU's free memory");
  return {static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes)};
}

}  // namespace colibri
