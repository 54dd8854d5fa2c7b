#include "coordinator/scheduler.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

std::vector<std::pair<int, int64_t>> plan(std::vector<SequenceState> sequences, StepLimits limits) {
  std::vector<StepPart> parts;
  plan_step(sequences, limits, parts);
  std::vector<std::pair<int, int64_t>> flat;
  for (const StepPart& part : parts) flat.emplace_back(part.sequence_idx, part.count);
  return flat;
}

using Parts = std::vector<std::pair<int, int64_t>>;

TEST(SchedulerTest, PromptIsCutIntoChunks) {
  EXPECT_EQ(plan({{100, 0}}, {.max_tokens = 64, .chunk = 7}), (Parts{{0, 7}}));
  EXPECT_EQ(plan({{100, 98}}, {.max_tokens = 64, .chunk = 7}), (Parts{{0, 2}}));
}

TEST(SchedulerTest, DecodingGoesBeforePrompts) {
  EXPECT_EQ(plan({{50, 0}, {9, 8}}, {.max_tokens = 10, .chunk = 64}), (Parts{{1, 1}, {0, 9}}));
}

TEST(SchedulerTest, FullStepLeavesTheRestForLater) {
  EXPECT_EQ(plan({{9, 8}, {9, 8}, {9, 8}}, {.max_tokens = 2, .chunk = 64}),
            (Parts{{0, 1}, {1, 1}}));
}

TEST(SchedulerTest, SequenceWithoutWorkIsLeftOut) {
  EXPECT_TRUE(plan({{5, 5}}, {.max_tokens = 8, .chunk = 8}).empty());
}

}  // namespace
}  // namespace colibri
