#include "coordinator/route_override.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/shapes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"
#include "topology/route_file.h"

namespace colibri {
namespace {

using Ids = std::vector<int32_t>;

// Tokens 0 .. num_tokens - 1 of one sequence.
Batch tokens(int64_t num_tokens, int32_t sequence = 0) {
  Batch batch;
  for (int32_t t = 0; t < num_tokens; ++t) {
    batch.ids.push_back(t);
    batch.positions.push_back(t);
    batch.sequences.push_back(sequence);
  }
  return batch;
}

Ids choose(RouteOverride& routing, int layer, const Batch& batch) {
  Ids ids(batch.ids.size() * 4);
  std::vector<float> weights(ids.size());
  routing.choose(layer, batch, ids, weights);
  EXPECT_TRUE(std::all_of(weights.begin(), weights.end(), [](float w) { return w == 0.25f; }));
  return ids;
}

// Of the choices of 4000 tokens, the share of the busiest of 16 experts; 1/16 would be even.
double busiest_share(double skew) {
  const auto routing = make_random_routing(*named_shape("demo"), skew, 1);
  std::vector<int> count(16);
  for (const int32_t id : choose(*routing, 1, tokens(4000))) ++count[static_cast<size_t>(id)];
  return *std::max_element(count.begin(), count.end()) / 16000.0;
}

TEST(RandomRoutingTest, ExpertsOfATokenAreDifferentAndAscend) {
  const auto routing = make_random_routing(*named_shape("demo"), 1.5, 7);
  const Ids ids = choose(*routing, 0, tokens(500));
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(ids[i] >= 0 && ids[i] < 16);
    if (i % 4 != 0) {
      ASSERT_LT(ids[i - 1], ids[i]);
    }
  }
}

TEST(RandomRoutingTest, ATokensChoiceDoesNotDependOnItsPlaceInTheBatch) {
  const auto routing = make_random_routing(*named_shape("demo"), 0, 7);
  const Ids all = choose(*routing, 2, tokens(9));
  Batch last;
  last.ids = last.positions = {8};
  last.sequences = {0};
  EXPECT_EQ(choose(*routing, 2, last), Ids(all.end() - 4, all.end()));
  EXPECT_NE(choose(*routing, 2, tokens(9, 1)), all);  // another sequence
  EXPECT_NE(choose(*routing, 3, tokens(9)), all);     // another layer
}

TEST(RandomRoutingTest, SkewLoadsAFewExperts) {
  EXPECT_NEAR(busiest_share(0), 1 / 16.0, 0.01);
  EXPECT_GT(busiest_share(1), 0.12);
  EXPECT_GT(busiest_share(3), 0.24);  // at most 1/4: a token takes an expert once
}

// A record of two tokens in the four layers of the demo's shape.
void write_record(const std::filesystem::path& path, int num_experts) {
  ModelShape shape = model_shape(*named_shape("demo"), {}, DType::kF32);
  shape.num_experts = num_experts;
  RouteFileWriter writer(path, route_file_header(shape));
  const RouteToken recorded[] = {{0, 0, 5}, {0, 1, 6}};
  writer.begin_step(recorded);
  const Ids ids = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<float> weights(8, 0.25f);
  for (int layer = 0; layer < 4; ++layer) writer.add_layer(layer, ids, weights);
  writer.commit();
}

TEST(RecordedRoutingTest, TokensTakeTheRecordedChoicesOverAndOver) {
  const TempDir dir;
  write_record(dir / "r", 16);
  const auto routing = make_recorded_routing(*named_shape("demo"), dir / "r");
  EXPECT_EQ(choose(*routing, 3, tokens(3)), (Ids{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3}));
}

TEST(RecordedRoutingTest, ARecordOfAnotherShapeIsRefused) {
  const TempDir dir;
  write_record(dir / "r", 12);
  EXPECT_ERROR(make_recorded_routing(*named_shape("demo"), dir / "r"), kInput, "12 experts");
}

}  // namespace
}  // namespace colibri
