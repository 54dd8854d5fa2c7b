// The expert-parallel load balancer of DeepSeek, written anew from a description of what it does,
// to hold the planner against: greedy copies, then greedy packing into equal numbers of slots.
#pragma once

#include <cstdint>
#include <vector>

namespace colibri {

struct EplbSizes {
  int num_slots = 0;  // P, a multiple of num_gpus
  int num_gpus = 0;
  int num_nodes = 1;   // with groups that divide by it: a group stays on one node
  int num_groups = 1;  // of neighbouring experts
};

// Experts of each GPU, [G][P / G], for the loads of one layer. An expert may stand twice on one.
std::vector<std::vector<int32_t>> eplb(const std::vector<double>& loads, const EplbSizes& sizes);

}  // namespace colibri
