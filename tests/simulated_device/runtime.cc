// The simulated CUDA runtime: memory, streams, events, launches.
#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "block_runner.h"
#include "cuda_runtime.h"
#include "simulated_stream.h"

struct CUstream_st {
  int device = 0;
};
struct CUevent_st {
  bool recorded = false;
};

namespace colibri_sim {
namespace {

constexpr size_t kPage = 4096;

struct Runtime {
  std::mutex mutex;
  std::map<void*, size_t> mappings;  // memory handed out -> bytes
  cudaError_t last_error = cudaSuccess;
  uint64_t num_launches = 0;
};

Runtime& runtime() {
  static Runtime one;
  return one;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) runtime().last_error = error;
  return error;
}

// The last byte ends just before a page that nobody may touch, but for alignment.
void* map_guarded(size_t bytes) {
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  auto* base = static_cast<unsigned char*>(mmap(
      nullptr, whole + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (base == MAP_FAILED) return nullptr;
  mprotect(base + kPage, whole, PROT_READ | PROT_WRITE);
  std::memset(base + kPage, 0xFF, whole);
  const size_t offset = (whole - bytes) / 256 * 256;
  return base + kPage + offset;
}

std::string kernel_name(const void* kernel) {
  Dl_info info;
  if (dladdr(kernel, &info) == 0 || info.dli_sname == nullptr) return "unnamed kernel";
  int status = 0;
  char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string name = status == 0 ? plain : info.dli_sname;
  std::free(plain);
  return name.substr(0, name.find('('));
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body) {
  KernelCall call{kernel_name(kernel), config.gridDim, config.blockDim, config.dynamicSmemBytes,
                  std::move(body)};
  try {
    run_kernel(call, ++runtime().num_launches);
  } catch (const KernelFault& fault) {
    std::fprintf(stderr, "simulated device: %s\n", fault.what());
    return remember(cudaErrorLaunchFailure);
  }
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t, MakeStreamWork make) {
  const auto work = make();
  while (!work->step()) {
  }
  return cudaSuccess;
}
void advance_all_streams() {}
OpenDeviceMemory::OpenDeviceMemory() = default;
OpenDeviceMemory::~OpenDeviceMemory() = default;
bool is_device_memory(const void* address, size_t bytes, int) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const auto& [base, size] : runtime().mappings) {
    const auto begin = reinterpret_cast<uintptr_t>(base);
    if (at >= begin && at + bytes <= begin + size) return true;
  }
  return false;
}

}  // namespace colibri_sim

using colibri_sim::remember;
using colibri_sim::runtime;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaPeekAtLastError() { return runtime().last_error; }
cudaError_t cudaGetLastError() { return std::exchange(runtime().last_error, cudaSuccess); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return remember(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = colibri_sim::map_guarded(bytes);
  if (*memory == nullptr) return remember(cudaErrorMemoryAllocation);
  runtime().mappings[*memory] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  runtime().mappings.erase(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = size_t{1} << 34;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

}  // extern "C"
