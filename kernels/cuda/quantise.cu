#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void quantise_rows(const QuantiseRows&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

void round_rows(const RoundRows&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
