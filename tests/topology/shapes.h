// Small model shapes for the tests of topology/.
#pragma once

#include <vector>

#include "base/model_shape.h"

namespace colibri {

inline ModelShape shape_of(int num_experts, const std::vector<bool>& layer_is_moe) {
  ModelShape shape;
  shape.family = "qwen3_moe";
  shape.fingerprint = "f00d";
  shape.num_layers = static_cast<int>(layer_is_moe.size());
  shape.num_experts = num_experts;
  shape.layer_is_moe = layer_is_moe;
  shape.hidden_size = 4;
  shape.top_k = 2;
  shape.expert_width = 3;
  shape.expert_bytes = 1000;
  return shape;
}

}  // namespace colibri
