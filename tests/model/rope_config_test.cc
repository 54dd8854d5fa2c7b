#include "model/rope_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

ParsedRope parse(const std::string& text,
                 const RopeDefaults& defaults = {.head_dim = 8, .max_positions = 64}) {
  const JsonValue object = parse_json(text, "config.json");
  JsonFields fields(object, "config.json");
  ParsedRope parsed = read_rope(fields, defaults);
  fields.refuse_unread();
  return parsed;
}

TEST(RopeConfigTest, DefaultFrequenciesArePowersOfTheta) {
  const RopeConfig rope = parse(R"({"rope_theta": 10000.0})").rope;
  ASSERT_EQ(rope.inv_freq.size(), 4u);
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.1f);
  EXPECT_FLOAT_EQ(rope.inv_freq[3], 0.001f);
  EXPECT_EQ(rope.attention_factor, 1.0f);
}

TEST(RopeConfigTest, LinearDividesByTheFactor) {
  const RopeConfig rope = parse(R"({"rope_scaling": {"type": "linear", "factor": 4}})").rope;
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.025f);
}

TEST(RopeConfigTest, BothFormsOfTheKeysMeanTheSame) {
  const auto old_form = parse(
      R"({"rope_theta": 500.0, "rope_scaling": {"type": "yarn", "factor": 4,
          "original_max_position_embeddings": 16}})");
  const auto new_form = parse(
      R"({"rope_parameters": {"rope_theta": 500.0, "rope_type": "yarn", "factor": 4,
          "original_max_position_embeddings": 16}})");
  EXPECT_EQ(old_form.rope, new_form.rope);
}

// dim 8, theta 10000, original 64: correction dims 8 ln(64/(r 2 pi)) / (2 ln 10000) are -0.49 for
// r = 32 (floor, then at least 0) and 1.008 for r = 1 (ceil 2), so the ramp over i is 0, 1/2, 1, 1.
TEST(RopeConfigTest, YarnMixesInterpolationByTheRamp) {
  const RopeConfig rope = parse(R"({"rope_scaling": {"type": "yarn", "factor": 4,
                "original_max_position_embeddings": 64}})")
                              .rope;
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.1f * (0.5f + 0.5f / 4));
  EXPECT_FLOAT_EQ(rope.inv_freq[2], 0.01f / 4);
  EXPECT_FLOAT_EQ(rope.inv_freq[3], 0.001f / 4);
  EXPECT_FLOAT_EQ(rope.attention_factor, static_cast<float>(0.1 * std::log(4.0) + 1));
}

// As above without rounding: the ramp ends where a wave turns beta_slow = 1/4 times.
TEST(RopeConfigTest, YarnRampEndsAtBetaSlow) {
  const RopeConfig rope =
      parse(R"({"rope_scaling": {"type": "yarn", "factor": 4, "truncate": false, "beta_slow": 0.25,
                "original_max_position_embeddings": 64}})")
          .rope;
  const double end = 8 * std::log(64 / (0.25 * 2 * M_PI)) / (2 * std::log(10000.0));  // 1.61
  const auto ramp = static_cast<float>(1 / end);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.1f * ((1 - ramp) + ramp / 4));
  EXPECT_FLOAT_EQ(rope.inv_freq[2], 0.01f / 4);
}

TEST(RopeConfigTest, MscalesGiveTheirQuotientAndTheLatentScale) {
  const ParsedRope parsed = parse(R"({"rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.5,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 64}})");
  const double half = 0.05 * std::log(40.0) + 1, one = 0.1 * std::log(40.0) + 1;
  EXPECT_FLOAT_EQ(parsed.rope.attention_factor, static_cast<float>(half / one));
  EXPECT_DOUBLE_EQ(parsed.latent_scale, one * one);
}

TEST(RopeConfigTest, GivenAttentionFactorWins) {
  const auto parsed = parse(R"({"rope_scaling": {"type": "yarn", "factor": 4, "mscale": 1,
      "mscale_all_dim": 1, "attention_factor": 1.5}})");
  EXPECT_EQ(parsed.rope.attention_factor, 1.5f);
}

TEST(RopeConfigTest, NullFactorIsMaxOverOriginal) {
  const auto given = parse(R"({"rope_scaling": {"type": "yarn", "factor": 4,
      "original_max_position_embeddings": 16}})");
  const auto derived = parse(R"({"rope_scaling": {"type": "yarn", "factor": null,
      "original_max_position_embeddings": 16}})");
  EXPECT_EQ(given.rope, derived.rope);
}

TEST(RopeConfigTest, PartialFactorCountsOnlyWhereTheFamilyHasIt) {
  const RopeDefaults partial{.head_dim = 8, .allow_partial = true, .partial_rotary_factor = 0.5};
  EXPECT_EQ(parse("{}", partial).rope.rotary_dim, 4);
  EXPECT_EQ(parse(R"({"partial_rotary_factor": 0.75})", partial).rope.rotary_dim, 6);
  EXPECT_EQ(parse(R"({"partial_rotary_factor": 0.75,
                      "rope_parameters": {"partial_rotary_factor": 0.25}})",
                  partial)
                .rope.rotary_dim,
            2);
  EXPECT_ERROR(parse(R"({"partial_rotary_factor": 0.5})"), kUnsupported, "partial_rotary_factor");
}

TEST(RopeConfigTest, OddRotarySizeIsRefused) {
  EXPECT_ERROR(parse("{}", {.head_dim = 7, .max_positions = 8}), kInput, "rotary size is 7");
}

TEST(RopeConfigTest, OtherTypesAndKeysAreRefusedByName) {
  EXPECT_ERROR(parse(R"({"rope_scaling": {"type": "llama3", "factor": 2}})"), kUnsupported,
               "type is \"llama3\"");
  EXPECT_ERROR(parse(R"({"rope_scaling": {"rope_type": "default", "factor": 2}})"), kUnsupported,
               "unknown key factor (2)");
  EXPECT_ERROR(parse(R"({"rope_scaling": {"type": "linear"}})"), kInput, "factor is absent");
  EXPECT_ERROR(parse(R"({"rope_scaling": {"type": "linear", "factor": -2}})"), kInput,
               "factor is -2");
  EXPECT_ERROR(parse(R"({"rope_scaling": [1]})"), kInput, "rope_scaling is a list of 1");
  EXPECT_ERROR(parse(R"({"rope_theta": 0})"), kInput, "rope_theta is 0");
}

}  // namespace
}  // namespace colibri
