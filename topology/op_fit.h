// Fits the numbers of an operation to measured times.
#pragma once

#include <span>

#include "topology/device_spec.h"

namespace colibri {

// One measured call.
struct OpSample {
  OpWork work = {};
  double cached_share = 0;  // of the bytes
  double us = 0;            // > 0
  double weight = 1;        // how much its error counts, >= 0
};

// The OpCost with the smallest fit_loss that a descent by halving steps finds from several starts;
// what no sample tells (no bytes, no operations, ...) stays 0. The same samples give the same
// numbers. Reading out of caches is never slower than out of memory. kInput without samples or with
// a time that is not above 0.
OpCost fit_op_cost(std::span<const OpSample> samples);

// Weighed sum over the samples of sqrt(1 + (x / 0.1)^2) - 1, x = log(predicted / measured): twice
// too fast is as wrong as twice too slow, and a call that something else of the machine disturbed
// counts by its error, not by the square of it.
double fit_loss(const OpCost& cost, std::span<const OpSample> samples);

// Largest, and median by weight, of |predicted / measured - 1|; samples without weight do not
// count.
struct FitError {
  double median = 0, worst = 0;
};
FitError fit_error(const OpCost& cost, std::span<const OpSample> samples);

}  // namespace colibri
