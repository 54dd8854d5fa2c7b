// Each rule by hand on a row of few logits.
#include "coordinator/logit_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "coordinator/sampler.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

using Ids = std::vector<int32_t>;
using Row = std::vector<float>;

// What becomes of `row` after a prompt and the tokens that were picked.
Row changed(const LogitRuleParams& params, const Row& row, const Ids& picked,
            const Ids& prompt = {}, const Ids& ends = {}) {
  LogitRules rules(params, prompt, ends);
  for (const int32_t id : picked) rules.push(id);
  Row copy = row;
  rules.apply(copy);
  return copy;
}

TEST(LogitRulesTest, FrequencyCountsAndPresenceDoesNot) {
  EXPECT_EQ(changed({.frequency_penalty = 0.5}, {1, 2, 3}, {2, 0, 2}, {1}), (Row{0.5, 2, 2}));
  EXPECT_EQ(changed({.presence_penalty = 0.5}, {1, 2, 3}, {2, 0, 2}, {1}), (Row{0.5, 2, 2.5}));
  EXPECT_EQ(changed({.presence_penalty = -1, .frequency_penalty = -2}, {1}, {0, 0}), Row{6});
}

// Prompt tokens too; what is negative moves away from 0.
TEST(LogitRulesTest, RepetitionDividesWhatIsAboveZeroAndMultipliesTheRest) {
  EXPECT_EQ(changed({.repetition_penalty = 2}, {4, -4, 4, -4}, {2, 2}, {0, 1}),
            (Row{2, -8, 2, -4}));
  EXPECT_EQ(changed({.repetition_penalty = 0.5}, {4, -4}, {}, {0, 1}), (Row{8, -2}));
}

TEST(LogitRulesTest, BiasComesFirstThenRepetitionThenTheOthers) {
  const LogitRuleParams all{.presence_penalty = 0.25,
                            .frequency_penalty = 0.5,
                            .repetition_penalty = 2,
                            .biases = {{0, 3.0f}, {1, -1.0f}}};
  EXPECT_EQ(changed(all, {1, 1, 1}, {0, 0}), (Row{(1 + 3) / 2.0f - 2 * 0.5f - 0.25f, 0, 1}));
}

TEST(LogitRulesTest, EndsAreBarredUntilMinTokensWerePicked) {
  const LogitRuleParams params{.min_tokens = 2};
  LogitRules rules(params, {}, Ids{1, 1, 77});
  const Row row = {1, 9, 2};
  for (const int32_t want : {2, 2, 1}) {
    EXPECT_EQ(rules.pick(row, {}), want);
    rules.push(want);
  }
}

// Also where nothing but rounding is left for the last, and where biases push as far as they can.
TEST(LogitRulesTest, BarredTokensAreNotDrawn) {
  const LogitRuleParams params{.biases = {{1, 100.0f}, {0, -100.0f}}, .min_tokens = 1};
  const LogitRules rules(params, {}, Ids{1});
  for (const double unit : {0.0, 0.3, std::nextafter(1.0, 0.0)}) {
    EXPECT_NE(rules.pick(Row{1, 9, 2}, {.unit = unit, .top_k = 3, .temperature = 2}), 1);
  }
}

TEST(LogitRulesTest, DrawIsThatOfTheChangedRow) {
  const LogitRuleParams params{.frequency_penalty = 1, .biases = {{3, 1.5f}}};
  const Row row = {1, 2, 3, 0};
  LogitRules rules(params, {}, {});
  rules.push(2);
  for (int i = 0; i < 50; ++i) {
    const TokenDraw draw{.unit = random_unit(5, 0, static_cast<uint64_t>(i)), .top_k = 4};
    EXPECT_EQ(rules.pick(row, draw), sample(changed(params, row, {2}), draw));
  }
}

TEST(LogitRulesTest, ExtremesStayFiniteAndDamageIsStillSeen) {
  const Row got = changed({.repetition_penalty = 1e-300}, {3, -3, 0}, {}, {0, 1, 2});
  for (const float logit : got) EXPECT_TRUE(std::isfinite(logit)) << logit;
  LogitRules rules({.repetition_penalty = 2}, Ids{0}, {});
  EXPECT_ERROR(rules.pick(Row{std::numeric_limits<float>::infinity(), 1}, {}), kInput, "token 0");
}

}  // namespace
}  // namespace colibri
