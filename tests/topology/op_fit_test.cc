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
      const OpWork work{.bytes = bytes, .operations = 2 * bytes * rows};
      samples.push_back({.work = work, .us = cost.us(work)});
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
  const std::vector<OpSample> samples{{.us = 5}, {.us = 5}};
  const OpCost found = fit_op_cost(samples);
  EXPECT_EQ(found.gbps, 0);
  EXPECT_EQ(found.cached_gbps, 0);
  EXPECT_EQ(found.gops, 0);
  EXPECT_EQ(found.piece_us, 0);
  EXPECT_EQ(found.value_ns, 0);
  EXPECT_NEAR(found.fixed_us, 5, 0.01);
}

// Each part alone is told by samples in which it is most of the time.
TEST(OpFit, TellsPiecesValuesAndCachesApart) {
  const OpCost truth{
      .fixed_us = 2, .gbps = 20, .gops = 500, .cached_gbps = 50, .piece_us = 3, .value_ns = 2};
  std::vector<OpSample> samples;
  for (const double cached : {0.0, 1.0}) {
    for (const double pieces : {1.0, 8.0, 64.0}) {
      for (const double values : {1e2, 1e4, 1e6}) {
        for (const double bytes : {1e4, 1e6}) {
          const OpWork work{bytes * pieces, bytes * pieces * values / 1e3, pieces, values};
          samples.push_back({work, cached, truth.us(work, cached)});
        }
      }
    }
  }
  const OpCost found = fit_op_cost(samples);
  EXPECT_NEAR(found.piece_us, 3, 0.1);
  EXPECT_NEAR(found.value_ns, 2, 0.1);
  EXPECT_NEAR(found.gbps, 20, 0.5);
  EXPECT_NEAR(found.cached_gbps, 50, 2);
}

TEST(OpFit, OneDisturbedCallDoesNotMoveTheNumbers) {
  const OpCost truth{.fixed_us = 7, .gbps = 20, .gops = 500, .sharpness = 2};
  std::vector<OpSample> samples = samples_of(truth);
  samples[3].us *= 4;
  const OpCost found = fit_op_cost(samples);
  EXPECT_NEAR(found.gbps, 20, 1);
  EXPECT_NEAR(found.fixed_us, 7, 0.5);
}

TEST(OpFit, ATimeOfZeroIsRefused) {
  const std::vector<OpSample> samples{{.work = {.bytes = 1, .operations = 1}, .us = 0}};
  EXPECT_THROW(fit_op_cost(samples), Error);
}

}  // namespace
}  // namespace colibri
