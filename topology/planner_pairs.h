// Which experts of a layer are chosen together, as a table that is read by rows. Internal to
// topology/planner*.cc.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/loads.h"

namespace colibri {

// [E, E] chance that a token chooses both, 0 on the diagonal; of one layer at a time, because all
// layers' tables together fit no cache. Single precision: counts are no better.
class PairTable {
 public:
  // Both phases together. `are_counted` of the layer. Cost: O(E^2).
  void load(const ExpertLoads& loads, int layer);

  // Each row ends with zeros up to stride(), a multiple of kBlock.
  static constexpr size_t kBlock = 8;
  size_t stride() const { return stride_; }
  const float* row(size_t expert) const { return &chances_[expert * stride_]; }
  float at(size_t a, size_t b) const { return chances_[a * stride_ + b]; }

  // Whether tokens of the layer were counted with their pairs.
  static bool are_counted(const ExpertLoads* loads, int layer);
  static bool are_equal(const ExpertLoads& loads, int layer, int other);

 private:
  size_t stride_ = 0;
  std::vector<float> chances_;
};

}  // namespace colibri
