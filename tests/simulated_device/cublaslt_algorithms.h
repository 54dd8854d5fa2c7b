// The sums behind the simulated cuBLASLt (include/simulated_cublaslt.h): D = op(A) op(B) in f32,
// every algorithm in an order of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "cublasLt.h"
#include "simulated_cublaslt.h"

namespace colibri_sim {

struct LtOperand {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  bool is_transposed = false;
  int64_t ld = 0;
};

struct LtProduct {
  LtOperand a, b;
  float* d = nullptr;
  int64_t d_ld = 0;
  int64_t m = 0, n = 0, k = 0;
  LtAlgorithm algorithm = LtAlgorithm::kByDepth;
};

// Algorithms in the order in which the heuristic for this shape names them: drawn from the shape,
// so that the first one differs from n to n.
std::vector<LtAlgorithm> lt_heuristic_order(int64_t m, int64_t n, int64_t k);

int64_t lt_workspace_bytes(LtAlgorithm algorithm, int64_t m, int64_t n);

// Reads every element of both operands, the padding columns included.
void lt_multiply(const LtProduct& product);

}  // namespace colibri_sim
