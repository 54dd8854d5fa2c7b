// e^x for sampling, the same bits on every machine: libm's differ from one version to the next, and
// a GPU's from both, so kernels/cuda/draw_tokens.cu takes the same steps.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/series.h"

namespace colibri {

// e^x for x <= 0, within two units in the last place; 0 below -700, NaN stays NaN. Exact products
// and sums only by name, so nothing may contract them (-ffp-contract=off).
// x = n ln 2 + r, |r| <= ln 2 / 2, n times the first part of ln 2 is exact.
inline double exp_of_negative(double x) {
  if (x < -700) return 0;
  const double n = std::floor(x * 1.4426950408889634074 + 0.5);
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  const double p = exp_series(r);
  if (!(x == x)) return p;
  return p * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

}  // namespace colibri
