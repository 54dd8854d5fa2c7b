// Kernel launches: what a GPU refuses, and the attributes of kernels.
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "block_runner.h"
#include "device_state.h"
#include "kernel_names.h"
#include "settings.h"
#include "streams.h"

namespace colibri_sim {
namespace {

constexpr size_t kSharedWithoutAsking = 48 * 1024, kMostShared = 227 * 1024;
constexpr size_t kSharedPerMultiprocessor = 228 * 1024, kSharedReserved = 1024;

struct KernelInfo {
  std::string name;
  size_t allowed_shared_bytes = kSharedWithoutAsking;
};

KernelInfo& info_of(const void* kernel) {
  static auto* infos = new std::map<const void*, KernelInfo>;
  const auto [found, is_new] = infos->try_emplace(kernel);
  if (is_new) found->second.name = find_kernel_name(kernel);
  return found->second;
}

cudaError_t refuse(const std::string& kernel, const std::string& reason, cudaError_t error) {
  report_fault("launch of " + kernel + ": " + reason);
  return error;
}

cudaError_t check_launch(const cudaLaunchConfig_t& config, const KernelInfo& kernel) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) {
    return refuse(kernel.name, std::to_string(threads) + " threads a block, want 1 to 1024",
                  cudaErrorInvalidConfiguration);
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFFu || grid.y > 65535 ||
      grid.z > 65535) {
    return refuse(kernel.name,
                  "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                      std::to_string(grid.z) + " blocks",
                  cudaErrorInvalidConfiguration);
  }
  if (config.dynamicSmemBytes > kernel.allowed_shared_bytes) {
    return refuse(kernel.name,
                  std::to_string(config.dynamicSmemBytes) + " bytes of shared memory, " +
                      std::to_string(kernel.allowed_shared_bytes) +
                      " are allowed (cudaFuncAttributeMaxDynamicSharedMemorySize)",
                  cudaErrorInvalidValue);
  }
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != cudaLaunchAttributeIgnore) {
      return refuse(kernel.name, "launch attributes are not simulated", cudaErrorNotSupported);
    }
  }
  const CUstream_st* stream = stream_of(config.stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->device != current_device()) {
    return refuse(kernel.name, "its stream belongs to another device than the current one",
                  cudaErrorInvalidResourceHandle);
  }
  return cudaSuccess;
}

uint64_t next_seed() {
  static uint64_t num_launches = 0;
  return settings().seed * 1'000'003 + ++num_launches;
}

}  // namespace

std::string find_kernel_name(const void* kernel) {
  Dl_info info;
  if (dladdr(kernel, &info) == 0 || info.dli_sname == nullptr || info.dli_saddr != kernel) {
    char text[40];
    std::snprintf(text, sizeof text, "kernel at %p", kernel);
    return text;
  }
  int status = 0;
  char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  const std::string name = status == 0 ? plain : info.dli_sname;
  std::free(plain);
  return strip_signature(name);
}

std::string strip_signature(const std::string& demangled) {
  int depth = 0;
  size_t end = demangled.size(), begin = 0;
  for (size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth == 0 && c == '(' && demangled.compare(i, 11, "(anonymous ") != 0) {
      end = i;
      break;
    }
  }
  if (demangled.starts_with("void ")) begin = 5;
  return demangled.substr(begin, end - begin);
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body) {
  return call([&] {
    const KernelInfo& info = info_of(kernel);
    const cudaError_t refused = check_launch(config, info);
    if (refused != cudaSuccess) return refused;
    KernelCall one{info.name,       config.gridDim,  config.blockDim, config.dynamicSmemBytes,
                   std::move(body), current_device()};
    Task task{.name = info.name, .kind = Order::kEnqueueKernel};
    task.make = [one] { return work_of([one] { run_kernel(one, next_seed()); }); };
    return submit(config.stream, std::move(task));
  });
}

}  // namespace colibri_sim

using namespace colibri_sim;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([&] {
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<size_t>(value) > kMostShared) {
      return cudaErrorInvalidValue;
    }
    info_of(kernel).allowed_shared_bytes = static_cast<size_t>(value);
    return cudaSuccess;
  });
}
// Registers and local memory are not simulated: 32 and 0.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return call([&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion =
        10 * settings().capability_major + settings().capability_minor;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(info_of(kernel).allowed_shared_bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, const void* kernel,
                                                          int block_size, size_t shared_bytes) {
  return call([&] {
    if (block_size < 1 || block_size > 1024) return cudaErrorInvalidValue;
    const int warps = (block_size + 31) / 32;
    const size_t by_shared = kSharedPerMultiprocessor / (shared_bytes + kSharedReserved);
    *num_blocks = std::min({32, 64 / warps, static_cast<int>(by_shared)});
    if (shared_bytes > info_of(kernel).allowed_shared_bytes) *num_blocks = 0;
    return cudaSuccess;
  });
}

}  // extern "C"
