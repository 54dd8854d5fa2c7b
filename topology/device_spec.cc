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

namespace {

// (a^p + b^p)^(1/p), without overflow.
double joined(double a, double b, double p) {
  const double more = std::max(a, b), less = std::min(a, b);
  if (less <= 0) return more;
  return more * std::pow(1 + std::pow(less / more, p), 1 / p);
}

}  // namespace

double OpCost::us(const OpWork& work, double cached_share) const {
  // 1 GB/s is 1e3 bytes a microsecond.
  const double cached = cached_gbps > 0 ? cached_gbps : gbps;
  const double us_a_kilobyte = gbps > 0 ? cached_share / cached + (1 - cached_share) / gbps : 0;
  const double reading = work.bytes / 1e3 * us_a_kilobyte;
  const double computing = gops > 0 ? work.operations / (gops * 1e3) : 0;
  return fixed_us + piece_us * work.pieces + value_ns / 1e3 * work.values +
         joined(reading, computing, sharpness);
}

double DeviceSpec::cached_share(double step_bytes) const {
  if (cache_bytes <= 0) return 0;
  const double fill = step_bytes / cache_bytes;
  return 1 / (1 + fill * fill * fill);
}

double DeviceSpec::exchange_total_us(double start_us, double link_us) const {
  return joined(start_us, link_us, exchange_sharpness);
}

}  // namespace colibri
