#include "coordinator/load_recorder.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

ModelShape small_shape() {
  ModelShape shape;
  shape.family = "made_up";
  shape.fingerprint = "f";
  shape.num_layers = 2;
  shape.num_experts = 4;
  shape.top_k = 2;
  shape.layer_is_moe = {false, true};
  return shape;
}

TEST(LoadRecorder, PromptsAndDecodingTokensAreCountedApartWithTheirPairs) {
  LoadRecorder recorder(small_shape());
  Batch batch;
  batch.sequences = {7, 7, 9};
  const std::vector<int32_t> ids = {0, 1, 0, 3, 2, 3};
  const std::vector<float> weights(6, 0.5f);
  recorder.on_routes(1, batch, ids, weights);
  const ExpertLoads loads = recorder.loads();
  const LayerLoads& prompt = loads.of(LoadPhase::kPrefill, 1);
  EXPECT_EQ(prompt.num_tokens, 2);
  EXPECT_EQ(prompt.tokens, (std::vector<double>{2, 1, 0, 1}));
  EXPECT_EQ(prompt.pairs[pair_index(0, 1)], 1);
  EXPECT_EQ(prompt.pairs[pair_index(0, 3)], 1);
  EXPECT_EQ(prompt.pairs[pair_index(2, 3)], 0);
  const LayerLoads& decode = loads.of(LoadPhase::kDecode, 1);
  EXPECT_EQ(decode.num_tokens, 1);
  EXPECT_EQ(decode.pairs[pair_index(2, 3)], 1);
  EXPECT_TRUE(loads.of(LoadPhase::kDecode, 0).tokens.empty());
}

}  // namespace
}  // namespace colibri
