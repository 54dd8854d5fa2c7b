// What config.json of every family holds: sizes, heads, experts, and the keys without effect.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/config.h"
#include "model/json_fields.h"
#include "model/rope_config.h"

namespace colibri {

// Limits keep every product of sizes within int64.
inline constexpr IntRange kSizeRange{1, int64_t{1} << 22};
inline constexpr IntRange kLayerRange{1, 4096};
inline constexpr IntRange kExpertRange{1, 1 << 14};
inline constexpr RealRange kScaleFactorRange{0, 1e6};

// Defaults of a family's configuration class.
struct ClassDefaults {
  int64_t vocab_size, hidden_size, num_layers, num_heads;
  int64_t num_kv_heads;  // 0: as many as heads
  int64_t max_positions;
  double rms_norm_eps;
  bool null_kv_heads = false;  // null num_key_value_heads means as many as heads
};

// The fields of ModelConfig that all families fill alike; marks the keys without effect.
void read_common(JsonFields& fields, const ClassDefaults& defaults, ModelConfig& config);

// head_dim or, if absent (or null where `null_is_absent`), hidden / heads.
void read_head_dim(JsonFields& fields, bool null_is_absent, ModelConfig& config);

// Grouped-query rotary positions and softmax scale.
void read_plain_rope(JsonFields& fields, RopeDefaults defaults, ModelConfig& config);

// The expert count under `key` or its alias; both present must agree.
void read_expert_count(JsonFields& fields, std::string_view key, std::string_view alias,
                       int64_t fallback, ModelConfig& config);

// num_experts_per_tok within the experts.
void read_top_k(JsonFields& fields, int64_t fallback, ModelConfig& config);

// MoE iff not in mlp_only_layers and (layer + 1) % decoder_sparse_step == 0.
void read_sparse_step_layers(JsonFields& fields, ModelConfig& config);

// Fails if layer_types names a kind of attention other than full.
void refuse_other_layer_types(JsonFields& fields, const ModelConfig& config);

}  // namespace colibri
