// Errors of the CUDA runtime as errors of colibri. CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace colibri {

// Fails with kInternal, or kEnvironment when memory ends, naming `what` and CUDA's own words.
inline void cuda_check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  const ErrorKind kind =
      error == cudaErrorMemoryAllocation ? ErrorKind::kEnvironment : ErrorKind::kInternal;
  fail(kind, what, " failed: ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
}

}  // namespace colibri
