// Fits the numbers of an operation to measured times.
#pragma once

#include <span>

#include "topology/device_spec.h"

namespace colibri {

// One measured call.
struct OpSample {
  double bytes = 0, operations = 0;
  double us = 0;  // > 0
};

// The OpCost with the smallest sum of squared relative errors that a descent by halving steps finds
// from several starts; what no sample tells (no bytes, no operations) stays 0. The same samples
// give the same numbers. kInput without samples or with a time that is not above 0.
OpCost fit_op_cost(std::span<const OpSample> samples);

// Largest and median |predicted / measured - 1|.
struct FitError {
  double median = 0, worst = 0;
};
FitError fit_error(const OpCost& cost, std::span<const OpSample> samples);

}  // namespace colibri
