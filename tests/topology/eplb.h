// The published load balancer that the planner is compared with, as its paper and readers describe
// it: copies for the expert with the largest load a copy, then packing by descending load into bins
// of equal size. One layer.
#pragma once

#include <cstdint>
#include <vector>

namespace colibri {

struct EplbSizes {
  int num_slots = 0, num_groups = 1, num_nodes = 1, num_gpus = 1;
};
struct EplbPlan {
  std::vector<std::vector<int>> experts_of_gpu;
  double balancedness = 0;  // mean over largest load of the GPUs
  int num_duplicates = 0;   // second copies of an expert on one GPU
};
// Hierarchical where the groups divide evenly over the nodes and there are several, else global.
EplbPlan eplb(const std::vector<double>& load, const EplbSizes& sizes);

// Loads ~ 1 / rank^skew, shuffled, sum 8.
std::vector<double> eplb_zipf(int num_experts, double skew, uint64_t seed);

}  // namespace colibri
