#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void matmul_dot(const MatMul&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

void batched_matmul_dot(const BatchedMatMul&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
