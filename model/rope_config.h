// Rotary positions from config.json: inverse frequencies and the factor on cos and sin, as
// transformers' modeling_rope_utils computes them (version 5.24; types default, linear, yarn).
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/json_fields.h"

namespace colibri {

// What a family knows before it reads the rotary keys.
struct RopeDefaults {
  double theta = 10000;
  int64_t head_dim = 0;              // the part of a head that partial_rotary_factor counts from
  bool allow_partial = false;        // partial_rotary_factor other than 1 has an effect
  double partial_rotary_factor = 1;  // when no key gives one
  int64_t max_positions = 0;
};

struct ParsedRope {
  RopeConfig rope;
  // Factor on the softmax scale that latent attention takes from mscale_all_dim: m squared; 1 if
  // the key is absent or zero, or the type is default.
  double latent_scale = 1;
};

// Reads rope_parameters (transformers 5) or rope_scaling with rope_theta and partial_rotary_factor
// (older); a non-empty rope_scaling replaces rope_parameters. Errors: kUnsupported for other types
// and for keys without effect on the type, kInput for numbers out of range or an odd rotary size.
ParsedRope read_rope(JsonFields& fields, const RopeDefaults& defaults);

}  // namespace colibri
