// How many experts each rank of a machine can hold beside all else: for plans of machines that are
// not at hand. On the machine itself a session plans what it has (launch/session_plan.cc).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "topology/rank_map.h"

namespace colibri {

struct RankRoom {
  double have_bytes = 0;  // of its GPU, or its share of its NUMA node; 0: not told
  // Besides experts, by name: the coordinator's weights, keys and values, and work space; on a GPU
  // also what NCCL keeps.
  std::vector<std::pair<std::string, double>> fixed;

  double fixed_bytes() const;
  // That fit; 0 when nothing does.
  int64_t slots(int64_t expert_bytes) const;
};

// [R] for a decode batch with `context` positions each.
std::vector<RankRoom> rank_rooms(const ModelShape& shape, const RankMap& ranks, int64_t batch,
                                 int64_t context);

// [R] for PlanRequest; empty (no limit) where a machine file does not tell some rank's memory.
// Errors: kEnvironment naming the first rank whose fixed part alone is too
// large, each item, by how many bytes, and the largest context or batch that fits.
std::vector<int64_t> slots_that_fit(const ModelShape& shape, const std::vector<RankRoom>& rooms,
                                    int64_t batch, int64_t context);

}  // namespace colibri
