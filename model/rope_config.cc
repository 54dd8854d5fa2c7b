#include "model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace colibri {
namespace {

constexpr RealRange kThetaRange{1, 1e12};
constexpr RealRange kFactorRange{0, 1e6};
constexpr RealRange kScaleRange{0, 1e3};
constexpr IntRange kPositionRange{1, int64_t{1} << 31};

struct Yarn {
  double factor = 1, original_positions = 0, beta_fast = 32, beta_slow = 1;
  bool truncate = true;
};

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// theta^(2i/dim) in f32, as torch computes it.
std::vector<float> position_frequencies(double theta, int64_t dim) {
  std::vector<float> result(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    result[i] = std::pow(static_cast<float>(theta), exponent);
  }
  return result;
}

std::vector<float> plain_inv_freq(double theta, int64_t dim, double divisor) {
  std::vector<float> result = position_frequencies(theta, dim);
  for (float& value : result) value = 1.0f / value / static_cast<float>(divisor);
  return result;
}

// The dimension whose wave turns `rotations` times over the original length.
double correction_dim(double rotations, double theta, int64_t dim, const Yarn& yarn) {
  return static_cast<double>(dim) *
         std::log(yarn.original_positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

std::vector<float> yarn_inv_freq(double theta, int64_t dim, const Yarn& yarn) {
  double low = correction_dim(yarn.beta_fast, theta, dim, yarn);
  double high = correction_dim(yarn.beta_slow, theta, dim, yarn);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;  // avoids 0 / 0
  std::vector<float> result = position_frequencies(theta, dim);
  for (size_t i = 0; i < result.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float keep = 1.0f - ramp;
    const float interpolated = 1.0f / (static_cast<float>(yarn.factor) * result[i]);
    result[i] = interpolated * (1.0f - keep) + 1.0f / result[i] * keep;
  }
  return result;
}

// The object that holds the rotary keys: rope_scaling if it has any, else rope_parameters.
const JsonValue* rope_object(JsonFields& fields) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const JsonValue* value = fields.find(key);
    if (value == nullptr || value->kind == JsonKind::kNull) continue;
    if (value->kind != JsonKind::kObject) fields.wrong(key, "an object or null");
    if (!value->items.empty()) {
      fields.find("rope_parameters");
      return value;
    }
  }
  return nullptr;
}

RopeType read_type(JsonFields& rope) {
  std::string name = rope.string_or("type", "default");
  name = rope.string_or("rope_type", name);
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "yarn") return RopeType::kYarn;
  rope.unsupported(rope.has("rope_type") ? "rope_type" : "type",
                   "rotary types here are default, linear and yarn");
}

double required_factor(JsonFields& rope) {
  if (!rope.has("factor")) rope.wrong("factor", "a number above 0 for this rope_type");
  return rope.real_or("factor", 1, kFactorRange);
}

// A number that Python's `or` would replace when it is null or zero.
double number_or(JsonFields& rope, const char* key, double fallback) {
  const JsonValue* value = rope.find(key);
  if (value == nullptr || value->kind == JsonKind::kNull) return fallback;
  if (value->kind == JsonKind::kInteger && value->integer == 0) return fallback;
  if (value->kind == JsonKind::kReal && value->real == 0) return fallback;
  return rope.real_or(key, fallback, kScaleRange);
}

Yarn read_yarn(JsonFields& rope, JsonFields& fields, const RopeDefaults& defaults) {
  Yarn yarn;
  auto original = static_cast<int64_t>(defaults.max_positions);
  original = rope.int_or("original_max_position_embeddings", original, kPositionRange);
  // The older place of the key wins over the dictionary's, as in transformers.
  original = fields.int_or("original_max_position_embeddings", original, kPositionRange);
  yarn.original_positions = static_cast<double>(original);
  if (rope.find("factor") == nullptr) rope.wrong("factor", "a number above 0, or null");
  yarn.factor =
      rope.optional_real("factor", kFactorRange)
          .value_or(static_cast<double>(defaults.max_positions) / yarn.original_positions);
  yarn.beta_fast = number_or(rope, "beta_fast", 32);
  yarn.beta_slow = number_or(rope, "beta_slow", 1);
  yarn.truncate = rope.bool_or("truncate", true);
  return yarn;
}

float yarn_attention_factor(JsonFields& rope, const Yarn& yarn) {
  const double mscale = number_or(rope, "mscale", 0);
  const double mscale_all_dim = number_or(rope, "mscale_all_dim", 0);
  const auto given = rope.optional_real("attention_factor", kScaleRange);
  if (given) return static_cast<float>(*given);
  if (mscale != 0 && mscale_all_dim != 0) {
    return static_cast<float>(yarn_mscale(yarn.factor, mscale) /
                              yarn_mscale(yarn.factor, mscale_all_dim));
  }
  return static_cast<float>(yarn_mscale(yarn.factor, 1));
}

int64_t rotary_dim(JsonFields& fields, JsonFields& rope, const RopeDefaults& defaults) {
  constexpr RealRange kShare{0, 1};
  double share = fields.real_or("partial_rotary_factor", defaults.partial_rotary_factor, kShare);
  share = rope.real_or("partial_rotary_factor", share, kShare);
  if (share != 1 && !defaults.allow_partial) {
    JsonFields& holder = rope.has("partial_rotary_factor") ? rope : fields;
    holder.unsupported("partial_rotary_factor", "this family turns whole heads; want 1");
  }
  const auto dim = static_cast<int64_t>(static_cast<double>(defaults.head_dim) * share);
  if (dim < 2 || dim % 2 != 0) {
    fail(ErrorKind::kInput, fields.where(), ": rotary size is ", dim, " (head size ",
         defaults.head_dim, ", partial_rotary_factor ", share, "), want an even number above 0");
  }
  return dim;
}

}  // namespace

ParsedRope read_rope(JsonFields& fields, const RopeDefaults& defaults) {
  JsonValue nothing;
  nothing.kind = JsonKind::kObject;
  const JsonValue* object = rope_object(fields);
  JsonFields rope(
      object == nullptr ? nothing : *object,
      fields.where() + ": " + (fields.has("rope_scaling") ? "rope_scaling" : "rope_parameters"));
  ParsedRope parsed;
  RopeConfig& out = parsed.rope;
  out.type = read_type(rope);
  out.theta = fields.real_or("rope_theta", defaults.theta, kThetaRange);
  out.theta = rope.real_or("rope_theta", out.theta, kThetaRange);
  out.rotary_dim = rotary_dim(fields, rope, defaults);
  switch (out.type) {
    case RopeType::kDefault:
      out.inv_freq = plain_inv_freq(out.theta, out.rotary_dim, 1);
      break;
    case RopeType::kLinear: {
      const double factor = required_factor(rope);
      out.inv_freq = plain_inv_freq(out.theta, out.rotary_dim, factor);
      const double m = yarn_mscale(factor, number_or(rope, "mscale_all_dim", 0));
      parsed.latent_scale = m * m;
      break;
    }
    case RopeType::kYarn: {
      const Yarn yarn = read_yarn(rope, fields, defaults);
      out.inv_freq = yarn_inv_freq(out.theta, out.rotary_dim, yarn);
      out.attention_factor = yarn_attention_factor(rope, yarn);
      const double m = yarn_mscale(yarn.factor, number_or(rope, "mscale_all_dim", 0));
      parsed.latent_scale = m * m;
      break;
    }
  }
  fields.without_effect({"original_max_position_embeddings"});
  rope.refuse_unread();
  return parsed;
}

}  // namespace colibri
