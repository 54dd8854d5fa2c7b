#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

int64_t attention_scratch_bytes(const Attention&) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

void attention(const Attention&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
