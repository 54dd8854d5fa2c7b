#include "launch/inspect_routes.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

// One layer with experts of two, eight experts, two per token; every token makes the same choice
// or, with `spread`, the next pair.
std::string text_of(int num_tokens, bool spread, std::vector<float> weights = {0.25f, 0.75f},
                    int64_t num_printed = 0) {
  const TempDir dir;
  {
    RouteFileWriter writer(dir / "r", {.family = "mixtral",
                                       .fingerprint = "ab",
                                       .num_layers = 2,
                                       .num_experts = 8,
                                       .top_k = 2,
                                       .layer_is_moe = {false, true}});
    for (int32_t t = 0; t < num_tokens; ++t) {
      const RouteToken token{0, t, 100 + t};
      const int32_t first = spread ? 2 * (t % 4) : 4;
      writer.begin_step({&token, 1});
      writer.add_layer(1, std::vector<int32_t>{first, first + 1}, weights);
    }
    writer.commit();
  }
  RouteFileReader reader(dir / "r");
  return routes_text(reader, num_printed);
}

void expect_holds(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(InspectRoutesTest, EvenLoadHasEntropyOneAndNoVerdictAgainstIt) {
  const std::string text = text_of(40, true);
  expect_holds(text, "mixtral ab, 2 layers, 1 of them with experts, top 2 of 8 experts\n");
  expect_holds(text, "40 tokens in 40 steps; an even load gives an expert 25.0 % of the tokens\n");
  expect_holds(text, "    1        40        0: 25.0 %       0     1.000       0.7500\n");
  expect_holds(text, "verdict: no layer is collapsed, all scores are finite\n");
}

TEST(InspectRoutesTest, CollapsedLayerIsNamed) {
  const std::string text = text_of(40, false);
  // Two experts of eight get half each: ln 2 / ln 8 = 1/3.
  expect_holds(text, "    1        40       4: 100.0 %       6     0.333       0.7500\n");
  expect_holds(text, "verdict: collapsed: layer 1 sends 100 % of its tokens to 2 of 8 experts");
}

TEST(InspectRoutesTest, FewTokensGiveNoVerdictOfCollapse) {
  const std::string text = text_of(31, false);
  expect_holds(text, "verdict: all scores are finite; too few tokens to say more, want 32\n");
}

TEST(InspectRoutesTest, ScoresThatAreNotFiniteAreCounted) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string text = text_of(3, true, {nan, 0.5f});
  expect_holds(text, "verdict: damaged: layer 1 has 3 scores that are not finite\n");
  expect_holds(text, "none finite\n");
}

TEST(InspectRoutesTest, FirstTokensArePrintedWithTheirChoices) {
  const std::string text = text_of(3, true, {0.25f, 0.75f}, 2);
  expect_holds(text,
               "sequence 0, position 0, token 100\n  layer 1    0: 0.2500  1: 0.7500\n"
               "sequence 0, position 1, token 101\n  layer 1    2: 0.2500  3: 0.7500\n"
               "mixtral");
}

TEST(InspectRoutesTest, EmptyRecordIsNoError) {
  expect_holds(text_of(0, true), "0 tokens in 0 steps");
}

}  // namespace
}  // namespace colibri
