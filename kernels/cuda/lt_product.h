// One product of cuBLASLt with everything fixed but its pointers: out [rows, n] = x [rows, k]
// weight [n, k]^T, all without gaps. cuBLASLt counts columns first, so it sees out^T = weight x^T.
// CUDA sources only.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace colibri::cuda {

// Fails with kInternal naming `what`.
void lt_check(cublasStatus_t status, const char* what);

// Pointers of every product are aligned to this.
inline constexpr uint32_t kLtAlignment = 16;

struct LtDestroy {
  void operator()(cublasLtContext* handle) const { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDescOpaque_t* desc) const { cublasLtMatmulDescDestroy(desc); }
  void operator()(cublasLtMatrixLayoutOpaque_t* layout) const {
    cublasLtMatrixLayoutDestroy(layout);
  }
  void operator()(cublasLtMatmulPreferenceOpaque_t* preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};
template <class T>
using LtPointer = std::unique_ptr<T, LtDestroy>;

LtPointer<cublasLtContext> make_lt_handle();

struct LtArrays {
  const void* weight = nullptr;
  const void* x = nullptr;
  float* out = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

class LtProduct {
 public:
  LtProduct(cublasLtContext* handle, int64_t rows, int64_t n, int64_t k, DType dtype);

  // At most `count` algorithms in the heuristic's order; none where the library knows none. Those
  // that add partial sums in place are left out: their order is not fixed.
  std::vector<cublasLtMatmulAlgo_t> candidates(size_t workspace_bytes, int count) const;
  cublasStatus_t enqueue(const LtArrays& arrays, const cublasLtMatmulAlgo_t& algo,
                         cudaStream_t stream) const;

 private:
  cublasLtContext* handle_;
  LtPointer<cublasLtMatmulDescOpaque_t> desc_;
  LtPointer<cublasLtMatrixLayoutOpaque_t> weight_, x_, out_;
};

// "algorithm 21, tile 18, split 1".
std::string describe(const cublasLtMatmulAlgo_t& algo);

}  // namespace colibri::cuda
