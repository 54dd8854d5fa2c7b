// Decides which token rows go to which rank, and in what order. Only counting: no memory, no
// network.
//
//   T tokens, K experts per token, R ranks, S rows = (token, destination rank) pairs, P = T * K
//   pairs
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/placement.h"

namespace colibri {

// What the router chose for one layer. A view.
struct RouterChoice {
  int layer = 0;
  int64_t num_tokens = 0;
  int64_t top_k = 0;
  std::span<const int32_t> expert_ids;  // [T, K], ascending within a token
};

// Counts and offsets are in rows or pairs, never in bytes. The arrays keep their capacity between
// uses.
struct DispatchPlan {
  std::vector<int32_t> row_begin;       // [R + 1] rows of rank r: [row_begin[r], row_begin[r + 1])
  std::vector<int32_t> row_token;       // [S] the token whose activations fill the row
  std::vector<int32_t> pair_begin;      // [S + 1] pairs of a row
  std::vector<int32_t> slot;            // [P] slot in the destination's list for this layer
  std::vector<int32_t> pair_of_choice;  // [T, K] where the result of a choice will lie
};

// Fills `plan`. A token travels once per destination rank; its row names the slots it wants there.
// Rows ascend by rank, then token; slots in a row by expert id. A replicated expert's slot is
// chosen by token number, which spreads the load and changes no bit.
//
// Example: T = 2, K = 2; rank 0 holds experts 0 and 1, rank 1 holds 2 and 3.
//   expert_ids      0 3 | 2 3
//   row_begin       0 1 3        row_token  0 | 0 1
//   pair_begin      0 1 2 4      slot       0 | 1 | 0 1
//   pair_of_choice  0 1 | 2 3
//   (asserted by DispatchPlanTest.HeaderExample)
//
// Cost: O(R + T * K * log K). Threads: reentrant.
// Errors: kInternal, plan unspecified, when an id is outside [0, E) or a size does not match.
void plan_dispatch(const RouterChoice& choice, const Placement& placement, DispatchPlan& plan);

}  // namespace colibri
