#include "worker/expert_shard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/weight_loader.h"
#include "tests/support/expect_error.h"
#include "tests/worker/shard_rig.h"

namespace colibri {
namespace {

using Ints = std::vector<int32_t>;

// down(silu(gate x) * up x) of one expert in double.
std::vector<double> expert_of(const ShardRig& rig, int layer, int expert, const float* x) {
  const auto floats = [&](TensorRole role) {
    return load_floats(rig.checkpoint(), {role, layer, expert});
  };
  const auto gate = floats(TensorRole::kExpertGate), up = floats(TensorRole::kExpertUp),
             down = floats(TensorRole::kExpertDown);
  const auto hidden = static_cast<size_t>(rig.config().hidden_size);
  const auto width = static_cast<size_t>(rig.config().expert_width);
  std::vector<double> out(hidden, 0);
  for (size_t i = 0; i < width; ++i) {
    double g = 0, u = 0;
    for (size_t k = 0; k < hidden; ++k) {
      g += static_cast<double>(gate[i * hidden + k]) * static_cast<double>(x[k]);
      u += static_cast<double>(up[i * hidden + k]) * static_cast<double>(x[k]);
    }
    const double a = g / (1 + std::exp(-g)) * u;
    for (size_t k = 0; k < hidden; ++k) out[k] += static_cast<double>(down[k * width + i]) * a;
  }
  return out;
}

void expect_row(const ShardRig& rig, int expert, const float* x, const float* got) {
  const auto want = expert_of(rig, 0, expert, x);
  for (size_t k = 0; k < want.size(); ++k) {
    EXPECT_NEAR(static_cast<double>(got[k]), want[k], 1e-5) << "expert " << expert << ", " << k;
  }
}

TEST(ExpertShardTest, EachPairIsItsExpertsFeedForwardInTheOrderOfThePairs) {
  ShardRig rig;
  const Placement all(rig.shape(), 1, {{{0, 1, 2}}, {{0, 1, 2}}});
  const auto shard = rig.load(all, 0);
  const auto x = rig.rows(2, 1);
  const auto hidden = rig.config().hidden_size;
  std::vector<float> out(static_cast<size_t>(4 * hidden));
  const Ints tokens = {1, 0}, begins = {0, 3, 4}, slots = {2, 0, 1, 2};
  shard->run({.layer = 0,
              .tokens = {x.data(), DType::kF32, rig.config().hidden_size},
              .row_token = tokens,
              .pair_begin = begins,
              .slot = slots,
              .out = {out.data()}},
             rig.stream());
  for (int pair = 0; pair < 4; ++pair) {
    const int token = pair < 3 ? 1 : 0;
    expect_row(rig, slots[static_cast<size_t>(pair)], x.data() + token * hidden,
               out.data() + pair * hidden);
  }
}

TEST(ExpertShardTest, RankReadsOnlyItsOwnExperts) {
  ShardRig rig;
  const Placement split(rig.shape(), 2, {{{1}, {0, 2}}, {{}, {0, 1, 2}}});
  const auto one = rig.load(split, 0);
  const uint64_t expert_bytes = static_cast<uint64_t>(rig.shape().expert_bytes);
  EXPECT_EQ(rig.loaded_bytes(), expert_bytes);
  EXPECT_EQ(one->num_resident(), 1);
  const auto rest = rig.load(split, 1);
  EXPECT_EQ(rig.loaded_bytes(), 6 * expert_bytes);
}

TEST(ExpertShardTest, SlotNumbersFollowThePlacementsList) {
  ShardRig rig;
  const Placement reversed(rig.shape(), 1, {{{2, 1, 0}}, {{0, 1, 2}}});
  const auto shard = rig.load(reversed, 0);
  const auto x = rig.rows(1, 4);
  std::vector<float> out(static_cast<size_t>(rig.config().hidden_size));
  const Ints tokens = {0}, begins = {0, 1}, slots = {0};
  shard->run({.layer = 0,
              .tokens = {x.data(), DType::kF32, rig.config().hidden_size},
              .row_token = tokens,
              .pair_begin = begins,
              .slot = slots,
              .out = {out.data()}},
             rig.stream());
  expect_row(rig, 2, x.data(), out.data());
}

TEST(ExpertShardTest, SlotThatIsNotThereIsNamed) {
  ShardRig rig;
  const Placement all(rig.shape(), 1, {{{0, 1, 2}}, {{0, 1, 2}}});
  const auto shard = rig.load(all, 0);
  const auto x = rig.rows(1, 1);
  std::vector<float> out(static_cast<size_t>(rig.config().hidden_size));
  const Ints tokens = {0}, begins = {0, 1}, slots = {3};
  EXPECT_ERROR(shard->run({.layer = 0,
                           .tokens = {x.data(), DType::kF32, rig.config().hidden_size},
                           .row_token = tokens,
                           .pair_begin = begins,
                           .slot = slots,
                           .out = {out.data()}},
                          rig.stream()),
               kInput, "slot 3, want [0, 3)");
}

TEST(ExpertShardTest, MorePairsThanPlannedAreRefused) {
  ShardRig rig;
  const Placement all(rig.shape(), 1, {{{0, 1, 2}}, {{0, 1, 2}}});
  const auto shard = rig.load(all, 0, 1);
  const auto x = rig.rows(1, 1);
  std::vector<float> out(static_cast<size_t>(2 * rig.config().hidden_size));
  const Ints tokens = {0}, begins = {0, 2}, slots = {0, 1};
  EXPECT_ERROR(shard->run({.layer = 0,
                           .tokens = {x.data(), DType::kF32, rig.config().hidden_size},
                           .row_token = tokens,
                           .pair_begin = begins,
                           .slot = slots,
                           .out = {out.data()}},
                          rig.stream()),
               kInput, "2 pairs in one message, want at most 1");
}

}  // namespace
}  // namespace colibri
