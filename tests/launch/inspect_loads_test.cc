#include "launch/inspect_loads.h"

#include <gtest/gtest.h>

#include "tests/topology/shapes.h"

namespace colibri {
namespace {

// Two layers, the second with four experts, two per token: 6 tokens of prompts, 4 decoded.
ExpertLoads some_loads(bool with_pairs) {
  ModelShape shape = shape_of(4, {false, true});
  shape.family = "made_up";
  shape.fingerprint = "0123456789abcdef";
  ExpertLoads loads = empty_loads(shape, with_pairs);
  LayerLoads& prefill = loads.phases[0][1];
  LayerLoads& decode = loads.phases[1][1];
  prefill.num_tokens = 6;
  prefill.tokens = {5, 4, 3, 0};
  decode.num_tokens = 4;
  decode.tokens = {3, 2, 3, 0};
  if (with_pairs) {
    prefill.pairs[pair_index(0, 1)] = 3;
    prefill.pairs[pair_index(0, 2)] = 2;
    prefill.pairs[pair_index(1, 2)] = 1;
    decode.pairs[pair_index(0, 2)] = 3;
    decode.pairs[pair_index(1, 2)] = 1;
  }
  return loads;
}

void expect_holds(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(InspectLoadsTest, ModelTokensAndTheBusiestAreTold) {
  const std::string text = loads_summary(some_loads(true));
  expect_holds(text, "made_up 0123456789abcdef, 2 layers, 1 of them with experts, top 2 of 4 ");
  expect_holds(text, "prefill 6 tokens, decode 4; an even load gives an expert 50.0 % of them\n");
  // Expert 0 has 8 of 10 tokens, the mean expert 5; experts 0 and 2 came together 5 times.
  expect_holds(text, "    1         6         4     1.60      1      0: 80.0 %  0, 2: 50.0 %\n");
  expect_holds(text, "busiest: layer 1 expert 0 80.0 %, layer 1 expert 1 60.0 %, ");
  // By chance 0.8 * 0.6 of the tokens would have both.
  expect_holds(text, "strong pair: layer 1 experts 0 and 2 50.0 %, 1.0 times chance\n");
}

TEST(InspectLoadsTest, LoadsWithoutPairsSaySo) {
  const std::string text = loads_summary(some_loads(false));
  expect_holds(text, "      0: 80.0 %\n");
  expect_holds(text, "pairs were not counted\n");
}

TEST(InspectLoadsTest, LoadsWithoutTokensSaySo) {
  ExpertLoads loads = some_loads(false);
  loads.num_layers = 0;
  for (auto& layers : loads.phases) layers.clear();
  expect_holds(loads_summary(loads), "no token was counted\n");
}

}  // namespace
}  // namespace colibri
