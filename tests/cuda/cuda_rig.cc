#include "tests/cuda/cuda_rig.h"

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "base/cuda_device.h"
#include "base/dtype.h"
#include "kernels/cuda/cuda_ops.h"

namespace colibri {

CudaRig::CudaRig()
    : pool({.num_threads = 1}),
      cpu_device(make_cpu_device(pool)),
      device(make_cuda_device(0)),
      cpu_stream(cpu_device->make_stream()),
      stream(device->make_stream()),
      cpu(make_cpu_ops(Isa::kPortable)),
      cuda(make_cuda_ops()) {}

std::string difference(const std::vector<float>& got, const std::vector<float>& want) {
  std::ostringstream text;
  if (got.size() != want.size()) {
    text << got.size() << " numbers, want " << want.size();
    return text.str();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (std::memcmp(&got[i], &want[i], sizeof(float)) == 0) continue;
    text << "number " << i << " is " << got[i] << ", want " << want[i];
    return text.str();
  }
  return "";
}

}  // namespace colibri
