#include "model/config.h"

#include <algorithm>

#include "base/error.h"
#include "model/families.h"
#include "model/json_fields.h"

namespace colibri {
namespace {

// Largest number of weights that sizes may add up to: far above any model, far below overflow.
constexpr double kMaxWeights = 1e15;

void check_total_size(const ModelConfig& config, const std::string& where) {
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const double h = real(config.hidden_size), a = real(config.attention.num_heads);
  const double width = real(config.expert_width) * config.num_experts + real(config.dense_width) +
                       real(config.shared_width);
  const AttentionConfig& attention = config.attention;
  const double ranks = real(attention.q_lora_rank + attention.kv_lora_rank) + h;
  const double heads =
      a * real(attention.head_dim + attention.v_head_dim + attention.qk_nope_head_dim);
  const double total =
      config.num_layers * (3 * h * width + 4 * heads * ranks) + 2 * h * real(config.vocab_size);
  if (total <= kMaxWeights) return;
  fail(ErrorKind::kInput, where, ": sizes add up to about ", total, " weights, want at most ",
       kMaxWeights, "; look at hidden_size ", config.hidden_size, ", num_hidden_layers ",
       config.num_layers, ", experts ", config.num_experts, ", widths ", config.expert_width,
       " and ", config.dense_width, ", num_attention_heads ", attention.num_heads, ", vocab_size ",
       config.vocab_size);
}

}  // namespace

ModelConfig parse_model_config(std::string_view config_json, const std::string& where) {
  const JsonValue document = parse_json(config_json, where);
  JsonFields fields(document, where);
  const JsonValue* type = fields.find("model_type");
  if (type == nullptr || type->kind != JsonKind::kString) {
    fields.wrong("model_type", "a string: the family of the model");
  }
  ModelConfig config = read_family(type->text, fields);
  check_total_size(config, where);
  const auto& moe = config.layer_is_moe;
  if (std::find(moe.begin(), moe.end(), true) == moe.end()) {
    fail(ErrorKind::kUnsupported, where,
         ": no layer has experts (num_hidden_layers, first_k_dense_replace, mlp_only_layers, "
         "decoder_sparse_step); want at least one");
  }
  return config;
}

std::vector<std::string> supported_families() { return family_names(); }

}  // namespace colibri
