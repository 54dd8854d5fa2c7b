#include <limits>

#include "base/error.h"
#include "model/config.h"
#include "model/json_fields.h"

namespace colibri {
namespace {

// Keys that would change what is sampled, with the value that does nothing.
void note_not_applied(JsonFields& fields, GenerationDefaults& defaults) {
  constexpr std::pair<const char*, double> kNeutral[] = {
      {"repetition_penalty", 1}, {"no_repeat_ngram_size", 0}, {"typical_p", 1},
      {"epsilon_cutoff", 0},     {"eta_cutoff", 0},           {"num_beams", 1},
      {"length_penalty", 1},     {"penalty_alpha", 0},        {"min_length", 0}};
  for (const auto& [key, neutral] : kNeutral) {
    const JsonValue* value = fields.find(key);
    if (value == nullptr || value->kind == JsonKind::kNull) continue;
    const bool is_number = value->kind == JsonKind::kInteger || value->kind == JsonKind::kReal;
    if (is_number && value->real == neutral) continue;
    defaults.not_applied.push_back(std::string(key) + " " + value->describe());
  }
  for (const char* key : {"bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
                          "forced_bos_token_id", "forced_eos_token_id", "sequence_bias"}) {
    const JsonValue* value = fields.find(key);
    if (value == nullptr || value->kind == JsonKind::kNull) continue;
    defaults.not_applied.push_back(std::string(key) + " " + value->describe());
  }
}

}  // namespace

GenerationDefaults parse_generation_defaults(std::string_view json, const std::string& where) {
  GenerationDefaults defaults;
  const JsonValue document = parse_json(json, where);
  JsonFields fields(document, where);
  constexpr double kBelowZero = -std::numeric_limits<double>::denorm_min();
  defaults.do_sample = fields.bool_or("do_sample", false);
  defaults.temperature = static_cast<float>(
      fields.optional_real("temperature", {kBelowZero, 1000}).value_or(defaults.temperature));
  defaults.top_p =
      static_cast<float>(fields.optional_real("top_p", {0, 1}).value_or(defaults.top_p));
  defaults.min_p =
      static_cast<float>(fields.optional_real("min_p", {kBelowZero, 1}).value_or(defaults.min_p));
  constexpr IntRange kIds{0, std::numeric_limits<int32_t>::max()};
  defaults.top_k = static_cast<int>(fields.optional_int("top_k", kIds).value_or(defaults.top_k));
  for (const int64_t id : fields.ints("eos_token_id", kIds)) {
    defaults.eos_ids.push_back(static_cast<int32_t>(id));
  }
  note_not_applied(fields, defaults);
  return defaults;
}

}  // namespace colibri
