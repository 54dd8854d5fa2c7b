#include "topology/device_spec.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace colibri {

const char* to_string(OpKind kind) {
  switch (kind) {
    case OpKind::kExperts:
      return "experts";
    case OpKind::kDense:
      return "dense";
    case OpKind::kAttention:
      return "attention";
    case OpKind::kPromptAttention:
      return "prompt-attention";
    case OpKind::kHead:
      return "head";
    case OpKind::kElementwise:
      return "elementwise";
  }
  fail(ErrorKind::kInternal, "OpKind value ", static_cast<int>(kind));
}

double OpCost::us(double bytes, double operations) const {
  // 1 GB/s is 1e3 bytes a microsecond.
  const double reading = gbps > 0 ? bytes / (gbps * 1e3) : 0;
  const double computing = gops > 0 ? operations / (gops * 1e3) : 0;
  const double more = std::max(reading, computing), less = std::min(reading, computing);
  if (more == 0) return fixed_us;
  return fixed_us + more * std::pow(1 + std::pow(less / more, sharpness), 1 / sharpness);
}

}  // namespace colibri
