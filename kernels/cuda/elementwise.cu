#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void silu_mul(const SiluMul&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

void sigmoid(const Elementwise&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

void add(const Elementwise&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

void clamp(const Elementwise&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
