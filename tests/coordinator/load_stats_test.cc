#include "coordinator/load_stats.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

TEST(LoadStatsTest, LayerThatSendsAlmostAllToOneExpertIsNamed) {
  LoadStats stats(2, 4, 1);
  const std::vector<int32_t> collapsed(100, 3), even = {0, 1, 2, 3};
  stats.add(1, collapsed);
  for (int i = 0; i < 25; ++i) stats.add(0, even);
  const auto warnings = stats.collapsed_layers(32);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("layer 1 sends 100 %"), std::string::npos);
}

TEST(LoadStatsTest, TooFewTokensSayNothing) {
  LoadStats stats(1, 4, 1);
  stats.add(0, std::vector<int32_t>(31, 0));
  EXPECT_TRUE(stats.collapsed_layers(32).empty());
}

TEST(LoadStatsTest, FewExpertsAreAlwaysBusy) {
  LoadStats stats(1, 2, 1);
  stats.add(0, std::vector<int32_t>(100, 0));
  EXPECT_TRUE(stats.collapsed_layers(32).empty());
}

}  // namespace
}  // namespace colibri
