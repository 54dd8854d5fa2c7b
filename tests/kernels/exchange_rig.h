// What the tests of kernels/exchange_ops.h share: plans, and operations run on any backend with
// their arrays in its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/device.h"
#include "kernels/ops.h"

namespace colibri {

using Ints = std::vector<int32_t>;

struct Side {
  Ops& ops;
  Device& device;
  Stream& stream;
};

// As coordinator/dispatch_plan.h says.
struct Plan {
  Ints row_begin, row_token, pair_begin, slot, pair_of_choice;
  int32_t num_ranks() const { return static_cast<int32_t>(row_begin.size()) - 1; }
};

// Each of T * K choices goes to rank[i] and slot[i] there.
struct Choices {
  int64_t num_tokens = 0, top_k = 0;
  int32_t num_ranks = 0;
  Ints rank, slot;
};
Choices random_choices(int64_t num_tokens, int64_t top_k, int32_t num_ranks, uint32_t seed);
Plan plan_of(const Choices& choices);

// Bytes and numbers of arrays before an operation writes them: -7 in every word.
inline constexpr int32_t kUntouched = -7;

struct PackCase {
  Plan plan;
  std::vector<float> tokens;  // [T, width]
  int64_t width = 0;
  std::vector<MessagePlace> places;
  size_t messages_bytes = 0;
  int32_t skip_rank = -1;
};
RowHeader header_of(const PackCase& one);
// Places of messages with exactly the plan's counts, or with room for so many rows and pairs each.
void place_exactly(PackCase& one);
void place_with_room(PackCase& one, int32_t max_rows, int32_t max_pairs);
// All messages, as they lie on the host afterwards.
std::vector<std::byte> pack(const Side& side, const PackCase& one);

struct GroupCase {
  int32_t num_rows = 0;
  Ints pair_begin, slot;
  Ints row_token = {};  // none: null
  Ints row_range = {};  // none: rows [0, num_rows)
  int32_t num_slots = 0;
  int64_t max_rows = 0, max_pairs = 0, max_results = 0;
  int64_t hidden_size = 3;
};
// The rows of one rank, within bounds that they reach: cut out, or as a range of the whole plan.
GroupCase rows_of(const Plan& plan, int32_t rank, int32_t num_slots);
GroupCase range_of(const Plan& plan, int32_t rank, int32_t num_slots);
struct Groups {
  Ints group_begin, pair_row;
  std::vector<int64_t> out_offset;
  uint32_t flags = 0;
  friend bool operator==(const Groups&, const Groups&) = default;
};
Groups group(const Side& side, const GroupCase& one);

struct LocateCase {
  Plan plan;
  int64_t top_k = 0;
  std::vector<int64_t> block_begin;
  Ints max_results;
  int64_t hidden_size = 3;
};
struct Located {
  std::vector<int64_t> offset;
  uint32_t flags = 0;
  friend bool operator==(const Located&, const Located&) = default;
};
Located locate(const Side& side, const LocateCase& one);

}  // namespace colibri
