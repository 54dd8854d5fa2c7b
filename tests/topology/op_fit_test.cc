#include "topology/op_fit.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace colibri {
namespace {

std::vector<OpSample> samples_of(const OpCost& cost) {
  std::vector<OpSample> samples;
  for (const double bytes : {1e4, 1e6, 1e8}) {
    for (const double rows : {1.0, 8.0, 64.0, 512.0}) {
      samples.push_back({bytes, 2 * bytes * rows, cost.us(bytes, 2 * bytes * rows)});
    }
  }
  return samples;
}

TEST(OpFit, FindsTheNumbersThatMadeTheTimes) {
  const OpCost truth{.fixed_us = 7, .gbps = 20, .gops = 500, .sharpness = 2};
  const OpCost found = fit_op_cost(samples_of(truth));
  EXPECT_NEAR(found.fixed_us, truth.fixed_us, 0.1);
  EXPECT_NEAR(found.gbps, truth.gbps, 0.2);
  EXPECT_NEAR(found.gops, truth.gops, 5);
  EXPECT_NEAR(found.sharpness, truth.sharpness, 0.1);
  EXPECT_LT(fit_error(found, samples_of(truth)).worst, 0.01);
}

TEST(OpFit, WhatNoSampleTellsStaysZero) {
  const std::vector<OpSample> samples{{0, 0, 5}, {0, 0, 5}};
  const OpCost found = fit_op_cost(samples);
  EXPECT_EQ(found.gbps, 0);
  EXPECT_EQ(found.gops, 0);
  EXPECT_NEAR(found.fixed_us, 5, 0.01);
}

TEST(OpFit, ATimeOfZeroIsRefused) {
  const std::vector<OpSample> samples{{1, 1, 0}};
  EXPECT_THROW(fit_op_cost(samples), Error);
}

}  // namespace
}  // namespace colibri
