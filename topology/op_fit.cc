#include "topology/op_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace colibri {
namespace {

// Logarithms of these, in this order.
enum Parameter : size_t { kFixed, kGbps, kGops, kSharpness, kCachedRatio, kPiece, kValue };
constexpr size_t kNumParameters = 7;
using Parameters = std::array<double, kNumParameters>;

// Below these a part of the time is none: times are microseconds.
constexpr double kLeastUs = 1e-3, kLeastNs = 1e-3;
constexpr double kLeastSharpness = 1, kMostSharpness = 8;
constexpr double kMostCachedRatio = 20;
// A rate that has no part in any time grows without end.
constexpr double kMostOfLargestRate = 30;
constexpr double kLossScale = 0.1;
// Of a descent's steps, in logarithms.
constexpr double kFirstStep = 0.5, kLastStep = 5e-4;

// What the samples tell of.
struct Seen {
  double least_us = 1e300, gbps = 0, gops = 0;  // gbps, gops: the largest rates
  double piece_us = 1e300, value_ns = 1e300;    // the least a piece, a value
  bool has_cached = false;
};

Seen seen_in(std::span<const OpSample> samples) {
  Seen seen;
  for (const OpSample& s : samples) {
    const OpWork& w = s.work;
    if (!(s.us > 0) || !(w.bytes >= 0) || !(w.operations >= 0)) {
      fail(ErrorKind::kInput, "a measured operation took ", s.us, " us for ", w.bytes,
           " bytes and ", w.operations, " operations, want a time above 0");
    }
    seen.least_us = std::min(seen.least_us, s.us);
    seen.gbps = std::max(seen.gbps, w.bytes / s.us / 1e3);
    seen.gops = std::max(seen.gops, w.operations / s.us / 1e3);
    if (w.pieces > 0) seen.piece_us = std::min(seen.piece_us, s.us / w.pieces);
    if (w.values > 0) seen.value_ns = std::min(seen.value_ns, 1e3 * s.us / w.values);
    seen.has_cached |= w.bytes > 0 && s.cached_share > 0;
  }
  return seen;
}

OpCost cost_of(const Parameters& p, const Seen& seen) {
  const auto part = [&](Parameter which, double least, bool is_told) {
    const double value = std::exp(p[which]);
    return is_told && value >= least ? value : 0;
  };
  const auto rate = [&](Parameter which, double largest) {
    return std::min(std::exp(p[which]), kMostOfLargestRate * largest);
  };
  const double gbps = seen.gbps > 0 ? rate(kGbps, seen.gbps) : 0;
  const double ratio = std::clamp(std::exp(p[kCachedRatio]), 1.0, kMostCachedRatio);
  return {.fixed_us = part(kFixed, kLeastUs, true),
          .gbps = gbps,
          .gops = seen.gops > 0 ? rate(kGops, seen.gops) : 0,
          .sharpness = std::clamp(std::exp(p[kSharpness]), kLeastSharpness, kMostSharpness),
          .cached_gbps = seen.has_cached ? gbps * ratio : 0,
          .piece_us = part(kPiece, kLeastUs, seen.piece_us < 1e300),
          .value_ns = part(kValue, kLeastNs, seen.value_ns < 1e300)};
}

class Fit {
 public:
  explicit Fit(std::span<const OpSample> samples) : samples_(samples), seen_(seen_in(samples)) {}

  OpCost best() const {
    OpCost found;
    double least = -1;
    for (const double fixed_share : {0.6, 0.01}) {
      for (const double rate : {1.0, 3.0}) {
        for (const double rest_share : {0.5, 0.02}) {
          Parameters p = start(fixed_share, rate, rest_share);
          const double loss = descend(p);
          if (least >= 0 && loss >= least) continue;
          least = loss;
          found = cost_of(p, seen_);
        }
      }
    }
    return found;
  }

 private:
  Parameters start(double fixed_share, double rate, double rest_share) const {
    Parameters p{};
    p[kFixed] = std::log(seen_.least_us * fixed_share);
    p[kGbps] = std::log(std::max(seen_.gbps, 1e-6) * rate / 2);
    p[kGops] = std::log(std::max(seen_.gops, 1e-6) * rate);
    p[kSharpness] = std::log(1.5);
    p[kCachedRatio] = std::log(2.0);
    p[kPiece] = std::log(seen_.piece_us * rest_share);
    p[kValue] = std::log(seen_.value_ns * rest_share);
    return p;
  }

  // One parameter after the other, and all pairs of two, by steps that halve when none helps.
  double descend(Parameters& p) const {
    double loss = fit_loss(cost_of(p, seen_), samples_);
    for (double step = kFirstStep; step > kLastStep; step /= 2) {
      while (improve(p, step, loss)) {
      }
    }
    return loss;
  }

  bool improve(Parameters& p, double step, double& loss) const {
    bool is_better = false;
    for (size_t i = 0; i < kNumParameters; ++i) {
      for (size_t j = i; j < kNumParameters; ++j) {
        for (const auto& [a, b] : {std::pair{1, 1}, {1, -1}, {-1, 1}, {-1, -1}}) {
          if (i == j && a != b) continue;
          Parameters tried = p;
          tried[i] += step * a;
          if (j != i) tried[j] += step * b;
          const double now = fit_loss(cost_of(tried, seen_), samples_);
          if (now >= loss * (1 - 1e-6)) continue;
          loss = now;
          p = tried;
          is_better = true;
        }
      }
    }
    return is_better;
  }

  std::span<const OpSample> samples_;
  Seen seen_;
};

}  // namespace

OpCost fit_op_cost(std::span<const OpSample> samples) {
  if (samples.empty()) fail(ErrorKind::kInput, "no measured operation to fit");
  return Fit(samples).best();
}

double fit_loss(const OpCost& cost, std::span<const OpSample> samples) {
  double sum = 0;
  for (const OpSample& s : samples) {
    const double x = std::log(cost.us(s.work, s.cached_share) / s.us) / kLossScale;
    sum += s.weight * (std::sqrt(1 + x * x) - 1);
  }
  return sum;
}

FitError fit_error(const OpCost& cost, std::span<const OpSample> samples) {
  std::vector<std::pair<double, double>> errors;  // with weights
  double total = 0;
  for (const OpSample& s : samples) {
    if (!(s.weight > 0)) continue;
    errors.emplace_back(std::abs(cost.us(s.work, s.cached_share) / s.us - 1), s.weight);
    total += s.weight;
  }
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  FitError error{.median = 0, .worst = errors.back().first};
  double seen = 0;
  for (const auto& [wrong, weight] : errors) {
    seen += weight;
    error.median = wrong;
    if (seen >= total / 2) break;
  }
  return error;
}

}  // namespace colibri
