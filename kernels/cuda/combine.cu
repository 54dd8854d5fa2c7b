#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void combine(const Combine&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
