// One way to start a kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "base/cuda_check.h"

namespace colibri::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;  // above 48 KB the launcher has raised the kernel's limit before
  cudaStream_t stream = nullptr;
};

// Enqueues the kernel; a grid without blocks is legal and does nothing. Fails with kInternal when
// the launch is refused.
template <class... Expected, class... Actual>
void launch(void (*kernel)(Expected...), const Grid& grid, Actual&&... args) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = grid.stream;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Actual>(args)...), "kernel launch");
}

// Lets `kernel` be launched with this much shared memory. Cheap, and legal during capture.
template <class... Parameters>
void allow_shared_bytes(void (*kernel)(Parameters...), size_t bytes) {
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             "shared memory of a kernel");
}

// Number of blocks of `unit` that cover `count`.
inline unsigned int blocks_for(int64_t count, int64_t unit) {
  return static_cast<unsigned int>((count + unit - 1) / unit);
}

}  // namespace colibri::cuda
