// A model as data: what every family's config.json comes down to. The forward pass reads only this.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/model_shape.h"
#include "model/weight_format.h"

namespace colibri {

enum class AttentionKind : uint8_t { kGroupedQuery, kLatent };
enum class QkNorm : uint8_t {
  kNone,
  kPerHead,   // over head_dim, weight [head_dim]
  kFullWidth  // over all heads together, before the split
};
enum class RouterScore : uint8_t { kSoftmax, kSigmoid };
enum class RopeType : uint8_t { kDefault, kLinear, kYarn };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  int64_t rotary_dim = 0;  // leading values of a head that turn; even
  bool interleaved = false;
  std::vector<float> inv_freq;  // [rotary_dim / 2], computed from the type as transformers does
  float attention_factor = 1;   // on cos and sin

  bool operator==(const RopeConfig&) const = default;
};

struct AttentionConfig {
  AttentionKind kind = AttentionKind::kGroupedQuery;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // grouped-query: of q, k and v
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  float clip_qkv = 0;  // 0: none
  float softmax_scale = 0;
  RopeConfig rope;
  // Latent attention only.
  int64_t q_lora_rank = 0;  // 0: one q projection
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool q_a_bias = false, kv_a_bias = false;
  float latent_norm_eps = 0;  // of q_a_layernorm and kv_a_layernorm

  bool operator==(const AttentionConfig&) const = default;
};

struct RouterConfig {
  RouterScore score = RouterScore::kSoftmax;
  bool selection_bias = false;  // e_score_correction_bias
  int num_groups = 1;
  int top_groups = 1;
  bool renormalise = false;
  float renormalise_eps = 0;
  float scale = 1;

  bool operator==(const RouterConfig&) const = default;
};

struct ModelConfig {
  std::string family;  // model_type; "deepseek_v3" for kimi_k2
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int num_layers = 0;
  float rms_norm_eps = 0;
  int64_t max_positions = 0;
  bool tied_embeddings = false;
  AttentionConfig attention;
  int num_experts = 0;
  int top_k = 0;
  int64_t expert_width = 0;
  int64_t dense_width = 0;
  std::vector<bool> layer_is_moe;  // [L]
  RouterConfig router;
  int64_t shared_width = 0;  // 0: no shared expert
  bool shared_gate = false;  // sigmoid(g x) on the shared expert
  // What dtype or torch_dtype says, kF8E4M3 when quantization_config says so; Checkpoint::open puts
  // the experts' stored type here.
  DType checkpoint_dtype = DType::kBF16;
  // Of a .colibri file: stored types of projections, dense MLPs and head, and of embeddings. Empty:
  // checkpoint_dtype, as in a Hugging Face directory.
  std::optional<DType> dense_dtype, wide_dtype;
  std::vector<int32_t> eos_ids;  // from config.json; generation_config.json wins
  int32_t bos_id = -1;

  bool operator==(const ModelConfig&) const = default;
};

// Reads config.json. Every key is understood, known to be without effect on inference, or refused
// by name. Errors: kInput for malformed or contradicting values (key, value, what was wanted),
// kUnsupported for a family, key or value that is valid elsewhere but not here.
ModelConfig parse_model_config(std::string_view config_json, const std::string& where);

// The families parse_model_config accepts.
std::vector<std::string> supported_families();

// Numbers and bytes for plans. `formats` are the forms that the matrices are asked to take in
// memory; config.checkpoint_dtype is what they are stored as. `kv_dtype` is the element type of the
// KV cache. Fails with kInput when q8 or q4 experts are asked for and H or I is not a multiple
// of 32.
ModelShape model_shape(const ModelConfig& config, const WeightFormats& formats, DType kv_dtype);

// Sampling defaults from generation_config.json; a missing key gives the defaults below.
struct GenerationDefaults {
  bool do_sample = false;
  float temperature = 1;
  float top_p = 1;
  int top_k = 0;  // 0: off
  float min_p = 0;
  std::vector<int32_t> eos_ids;  // empty: take config.json's
  // "repetition_penalty 1.05": keys of the file that change sampling and are not applied, for a
  // warning.
  std::vector<std::string> not_applied;
};
GenerationDefaults parse_generation_defaults(std::string_view json, const std::string& where);

}  // namespace colibri
