// The bytes are a config.json: it either gives a model whose numbers hang together or throws Error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/config.h"

namespace {

void check_model(const colibri::ModelConfig& config) {
  const colibri::AttentionConfig& attention = config.attention;
  const colibri::ModelShape shape =
      colibri::model_shape(config, {}, colibri::DType::kF32);
  const bool is_sound =
      shape.expert_bytes > 0 && shape.coordinator_weight_bytes > 0 &&
      shape.kv_bytes_per_token > 0 && config.top_k >= 1 && config.top_k <= config.num_experts &&
      attention.num_heads % attention.num_kv_heads == 0 &&
      config.num_experts % config.router.num_groups == 0 &&
      config.layer_is_moe.size() == static_cast<size_t>(config.num_layers) &&
      static_cast<int64_t>(attention.rope.inv_freq.size()) * 2 == attention.rope.rotary_dim;
  if (!is_sound) __builtin_trap();
  for (const float frequency : attention.rope.inv_freq) {
    if (!std::isfinite(frequency)) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check_model(colibri::parse_model_config(text, "fuzz.json"));
  } catch (const colibri::Error&) {
  }
  return 0;
}
