// What `colibri simulate` prints and draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/simulator.h"

namespace colibri {

struct SimulatedPoint {
  std::string machine;
  int ranks = 0;
  int64_t batch = 0;         // sequences, of all coordinators together
  std::string coordinators;  // as asked for
  SimulatedStep step;
  double tokens_per_s = 0;
  MemoryGap gap = {};

  bool fits() const { return gap.missing() <= 0; }
};

// How another machine or other loads would change a point.
struct WhatIf {
  std::string what;
  double step_us = 0;
};

struct SimulatedFacts {
  std::string model, weights, routing;
  int64_t context = 0;
};

// One point by stages, with what changes would do.
std::string point_text(const SimulatedFacts& facts, const SimulatedPoint& point,
                       const std::vector<WhatIf>& changes);
std::string simulated_table(const SimulatedFacts& facts, const std::vector<SimulatedPoint>& points);
std::string simulated_csv(const std::vector<SimulatedPoint>& points);
std::string simulated_json(const SimulatedFacts& facts, const std::vector<SimulatedPoint>& points,
                           const std::vector<WhatIf>& changes);

// Tokens/s over ranks where they are swept, else over the batch: a curve for every other choice.
// What does not fit in memory is dashed.
std::string simulated_svg(const SimulatedFacts& facts, const std::vector<SimulatedPoint>& points);

}  // namespace colibri
