// The GPU's Ops. Built into libcolibri_cuda.so; the header needs no CUDA.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace colibri {

class DenseProducts;

struct CudaOpsOptions {
  // Multiplies the weights it takes (kernels/cuda/dense.h) instead of the own kernels; null: the
  // own kernels multiply all.
  std::shared_ptr<DenseProducts> dense = nullptr;
};

// For the calling thread's current GPU. Arrays lie in its memory; streams are those of its Device.
std::unique_ptr<Ops> make_cuda_ops(const CudaOpsOptions& options);
std::unique_ptr<Ops> make_cuda_ops();

}  // namespace colibri
