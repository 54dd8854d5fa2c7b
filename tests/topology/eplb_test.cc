#include "tests/topology/eplb.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri {
namespace {

// The example of its README: two layers of 12 experts, 16 slots, 4 groups, 2 nodes, 8 GPUs.
TEST(Eplb, TheReadmesExampleComesOutTheSame) {
  const std::vector<double> loads[] = {{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86},
                                       {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}};
  const std::vector<std::vector<int>> wanted[] = {
      {{5, 6}, {5, 7}, {4, 8}, {3, 4}, {9, 10}, {2, 10}, {0, 1}, {1, 11}},
      {{7, 10}, {6, 8}, {6, 11}, {8, 9}, {2, 4}, {1, 5}, {0, 5}, {1, 3}}};
  const double balancedness[] = {0.8277, 0.8050};
  for (size_t layer = 0; layer < 2; ++layer) {
    EplbPlan plan =
        eplb(loads[layer], {.num_slots = 16, .num_groups = 4, .num_nodes = 2, .num_gpus = 8});
    for (auto& experts : plan.experts_of_gpu) std::sort(experts.begin(), experts.end());
    EXPECT_EQ(plan.experts_of_gpu, wanted[layer]);
    EXPECT_NEAR(plan.balancedness, balancedness[layer], 5e-5);
  }
}

}  // namespace
}  // namespace colibri
