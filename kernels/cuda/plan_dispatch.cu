#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace colibri::cuda {

void plan_dispatch(const PlanDispatch&, cudaStream_t) {
  fail(ErrorKind::kUnsupported, "this kernel is not built yet");
}

}  // namespace colibri::cuda
