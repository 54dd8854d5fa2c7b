// e^x for sampling, the same bits on every machine: libm's differ from one version to the next, and
// a GPU's from both. kernels/cuda/draw_tokens.cu has the same steps.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace colibri {

// e^x for x <= 0, within two units in the last place; 0 below -700, NaN stays NaN. Exact products
// and sums only by name, so nothing may contract them (-ffp-contract=off).
// x = n ln 2 + r, |r| <= ln 2 / 2, n times the first part of ln 2 is exact; Taylor's polynomial of
// degree 13 for e^r errs by less than 2^-57.
inline double exp_of_negative(double x) {
  if (x < -700) return 0;
  const double n = std::floor(x * 1.4426950408889634074 + 0.5);
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  if (!(x == x)) return p;
  return p * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

}  // namespace colibri
