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

std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
  }
  return values;
}

std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(float_to_bf16(value));
  return out;
}

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
