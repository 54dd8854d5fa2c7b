#include "coordinator/route_recorder.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

ModelShape shape_of(std::vector<bool> layer_is_moe) {
  ModelShape shape;
  shape.family = "mixtral";
  shape.fingerprint = "ab";
  shape.num_layers = static_cast<int>(layer_is_moe.size());
  shape.num_experts = 4;
  shape.top_k = 1;
  shape.layer_is_moe = std::move(layer_is_moe);
  return shape;
}

Batch batch_of(const std::vector<RouteToken>& tokens) {
  Batch batch;
  for (const RouteToken& token : tokens) {
    batch.ids.push_back(token.id);
    batch.positions.push_back(token.position);
    batch.sequences.push_back(token.sequence);
  }
  return batch;
}

std::vector<RouteBlock> blocks_of(const std::filesystem::path& path) {
  RouteFileReader reader(path);
  std::vector<RouteBlock> blocks;
  for (RouteBlock block; reader.next(block);) blocks.push_back(block);
  return blocks;
}

TEST(RouteRecorderTest, LayersOfOneStepShareItsTokensAndTheNextStepBeginsAnew) {
  const TempDir dir;
  const std::vector<RouteToken> first = {{0, 0, 7}, {1, 0, 8}}, second = {{1, 1, 9}};
  const std::vector<int32_t> two_ids = {3, 0}, one_id = {2};
  const std::vector<float> two = {0.5f, 0.25f}, one = {1};
  RouteRecorder recorder(dir / "r", shape_of({false, true, true}));
  for (const int layer : {1, 2}) recorder.on_routes(layer, batch_of(first), two_ids, two);
  for (const int layer : {1, 2}) recorder.on_routes(layer, batch_of(second), one_id, one);
  recorder.commit();
  const auto blocks = blocks_of(dir / "r");
  ASSERT_EQ(blocks.size(), 4u);
  for (const int i : {0, 1, 2, 3}) {
    const RouteBlock& block = blocks[static_cast<size_t>(i)];
    EXPECT_EQ(block.step, i / 2);
    EXPECT_EQ(block.layer, 1 + i % 2);
    EXPECT_EQ(block.tokens, i < 2 ? first : second);
    EXPECT_EQ(block.expert_ids, i < 2 ? two_ids : one_id);
    EXPECT_EQ(block.weights, i < 2 ? two : one);
  }
}

TEST(RouteRecorderTest, OneLayerWithExpertsBeginsAStepEachTime) {
  const TempDir dir;
  RouteRecorder recorder(dir / "r", shape_of({true}));
  for (int32_t t = 0; t < 3; ++t) {
    recorder.on_routes(0, batch_of({{0, t, t}}), std::vector<int32_t>{1}, std::vector<float>{1});
  }
  recorder.commit();
  EXPECT_EQ(blocks_of(dir / "r").size(), 3u);
}

}  // namespace
}  // namespace colibri
