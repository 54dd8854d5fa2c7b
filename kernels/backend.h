// What a rank computes with.
#pragma once

#include "base/device.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"

namespace colibri {

// All outlive whoever is given it. `pool` is the host's threads: loading, and the CPU's operations.
struct Backend {
  Device* device = nullptr;
  Stream* stream = nullptr;
  Ops* ops = nullptr;
  ThreadPool* pool = nullptr;
  // f32 or bf16: of rows that products with bf16 weights read, and of the rows that experts return,
  // whatever their weights are.
  DType activations = DType::kF32;
};

// The form of the rows that a product with such weights reads.
inline DType row_dtype_for(DType weights, DType activations) {
  if (is_quantised(weights)) return DType::kI8;
  return weights == DType::kBF16 ? activations : DType::kF32;
}

}  // namespace colibri
