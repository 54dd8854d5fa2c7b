// Which algorithm multiplies each bucket of one weight shape (kernels/cuda/dense.h says how it is
// chosen). CUDA sources only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/lt_product.h"

namespace colibri::cuda {

struct PinnedBucket {
  int64_t rows = 0;
  std::unique_ptr<LtProduct> product;
  cublasLtMatmulAlgo_t algo{};
};

struct PinnedShape {
  DenseShape shape;
  std::vector<PinnedBucket> buckets;  // ascending; empty where no class fits
  uint64_t fingerprint = 0;           // of the probe row's results
};

struct ProbeTools {
  Device* device = nullptr;
  Stream* stream = nullptr;
  cublasLtContext* handle = nullptr;
  void* workspace = nullptr;
  const DenseOptions* options = nullptr;
};

// Of options.buckets those that a shape needs: up to the first that holds its max_tokens, or all.
std::span<const int64_t> buckets_of(const DenseShape& shape, const DenseOptions& options);

// Takes and frees the probe's memory.
PinnedShape pin_algorithms(const DenseShape& shape, const ProbeTools& tools, DenseReport& report);

}  // namespace colibri::cuda
