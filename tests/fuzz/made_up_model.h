// The model that the corpora of loads and placements are of: a dense layer and two with experts.
#pragma once

#include "tests/topology/shapes.h"

namespace colibri {

inline ModelShape made_up_model(int num_experts) {
  ModelShape shape = shape_of(num_experts, {false, true, true});
  shape.family = "made_up";
  shape.fingerprint = "0123456789abcdef";
  return shape;
}

}  // namespace colibri
