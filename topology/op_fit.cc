#include "topology/op_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace colibri {
namespace {

constexpr size_t kNumParameters = 4;
using Parameters = std::array<double, kNumParameters>;  // logarithms

// A fixed part below this is none: times are microseconds.
constexpr double kLeastFixedUs = 1e-3;
constexpr double kLeastSharpness = 1, kMostSharpness = 8;

OpCost cost_of(const Parameters& p, bool has_bytes, bool has_operations) {
  const double fixed = std::exp(p[0]);
  return {.fixed_us = fixed < kLeastFixedUs ? 0 : fixed,
          .gbps = has_bytes ? std::exp(p[1]) : 0,
          .gops = has_operations ? std::exp(p[2]) : 0,
          .sharpness = std::clamp(std::exp(p[3]), kLeastSharpness, kMostSharpness)};
}

class Fit {
 public:
  explicit Fit(std::span<const OpSample> samples) : samples_(samples) {
    for (const OpSample& s : samples) {
      if (!(s.us > 0) || !(s.bytes >= 0) || !(s.operations >= 0)) {
        fail(ErrorKind::kInput, "a measured operation took ", s.us, " us for ", s.bytes,
             " bytes and ", s.operations, " operations, want a time above 0");
      }
      least_us_ = std::min(least_us_, s.us);
      gbps_ = std::max(gbps_, s.bytes / s.us / 1e3);
      gops_ = std::max(gops_, s.operations / s.us / 1e3);
    }
  }

  OpCost best() const {
    OpCost found;
    double least = -1;
    for (const double fixed_share : {0.9, 0.3, 0.01}) {
      for (const double rate : {1.0, 3.0}) {
        Parameters p{std::log(least_us_ * fixed_share), std::log(std::max(gbps_, 1e-6) * rate),
                     std::log(std::max(gops_, 1e-6) * rate), std::log(1.5)};
        const double error = descend(p);
        if (least >= 0 && error >= least) continue;
        least = error;
        found = cost_of(p, gbps_ > 0, gops_ > 0);
      }
    }
    return found;
  }

 private:
  double error_of(const Parameters& p) const {
    const OpCost cost = cost_of(p, gbps_ > 0, gops_ > 0);
    double sum = 0;
    for (const OpSample& s : samples_) {
      // The logarithm of the ratio: twice too fast is as wrong as twice too slow.
      const double wrong = std::log(cost.us(s.bytes, s.operations) / s.us);
      sum += wrong * wrong;
    }
    return sum;
  }

  // One parameter after the other, and all pairs of two, by steps that halve when none helps.
  double descend(Parameters& p) const {
    double error = error_of(p);
    for (double step = 0.5; step > 1e-4; step /= 2) {
      while (improve(p, step, error)) {
      }
    }
    return error;
  }

  bool improve(Parameters& p, double step, double& error) const {
    bool is_better = false;
    for (size_t i = 0; i < kNumParameters; ++i) {
      for (size_t j = i; j < kNumParameters; ++j) {
        for (const auto& [a, b] : {std::pair{1, 1}, {1, -1}, {-1, 1}, {-1, -1}}) {
          Parameters tried = p;
          tried[i] += step * a;
          if (j != i) tried[j] += step * b;
          const double now = error_of(tried);
          if (now >= error * (1 - 1e-9)) continue;
          error = now;
          p = tried;
          is_better = true;
        }
      }
    }
    return is_better;
  }

  std::span<const OpSample> samples_;
  double least_us_ = 1e300, gbps_ = 0, gops_ = 0;
};

}  // namespace

OpCost fit_op_cost(std::span<const OpSample> samples) {
  if (samples.empty()) fail(ErrorKind::kInput, "no measured operation to fit");
  return Fit(samples).best();
}

FitError fit_error(const OpCost& cost, std::span<const OpSample> samples) {
  std::vector<double> errors;
  for (const OpSample& s : samples) {
    errors.push_back(std::abs(cost.us(s.bytes, s.operations) / s.us - 1));
  }
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  return {errors[errors.size() / 2], errors.back()};
}

}  // namespace colibri
