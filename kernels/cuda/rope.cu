#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void rope_angles(const RopeAngles&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

void rope(const Rope&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
