#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void grouped_ffn_dot(const GroupedFfn&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
