#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void embed(const EmbedRows&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
