// The operations of an exchange whose plan never leaves the device: rows into messages, arrived
// rows into groups for GroupedFfn, results to where Combine finds them. Rules for all operations:
// kernels/op_types.h. Every count that only the device knows comes by pointer; the numbers beside
// it bound it and size the grid.
#pragma once

#include <cstdint>

#include "base/row_header.h"

namespace colibri {

// Bits of the flag word that these operations set and never clear. The host reads it at the end of
// a step.
inline constexpr uint32_t kFlagOverflow = 1;    // more pairs than a message of results holds: rerun
inline constexpr uint32_t kFlagBadSlot = 2;     // a row asked for a slot that is not there
inline constexpr uint32_t kFlagNotFinite = 4;   // a router's logits were not finite
inline constexpr uint32_t kFlagBadMessage = 8;  // counts of a message are out of bounds

// One copy of an expert: the `slot`-th of rank `rank` in its layer.
struct ExpertSlot {
  int32_t rank = 0;
  int32_t slot = 0;
};

// What coordinator/dispatch_plan.h defines, made from the router's choice where it lies: a token
// travels once per destination rank; rows ascend by rank, then token; slots in a row by expert id;
// token t takes copy t mod n of an expert with n. Tokens from *num_real_tokens on are padding: they
// make no rows, and their choices get pair_of_choice -1. So does a token whose expert_ids[t, 0] is
// negative; it sets kFlagNotFinite. With num_tokens 0 all counts are 0.
struct PlanDispatch {
  const int32_t* expert_ids = nullptr;       // [T, K], ascending within a token
  const int32_t* slot_begin = nullptr;       // [E + 1]
  const ExpertSlot* slots = nullptr;         // of expert e: [slot_begin[e], slot_begin[e + 1])
  const int32_t* num_real_tokens = nullptr;  // null: num_tokens
  int32_t* row_begin = nullptr;              // [R + 1]
  int32_t* row_token = nullptr;              // [T * min(K, R)]
  int32_t* pair_begin = nullptr;             // [T * min(K, R) + 1]
  int32_t* slot = nullptr;                   // [T * K]
  int32_t* pair_of_choice = nullptr;         // [T, K]
  int32_t* rank_pair_begin = nullptr;        // [R + 1] first pair of each rank
  uint32_t* flags = nullptr;
  int64_t num_tokens = 0;
  int64_t top_k = 0;
  int32_t num_ranks = 0;  // at most kMaxPlannedRanks
};
inline constexpr int32_t kMaxPlannedRanks = 256;

// A message as it is laid out: from `offset_bytes` after the base (a multiple of 64, as the base
// is), with room for so many rows and pairs (transport/row_batch.h, row_message_layout). Exact
// counts: the counts themselves.
struct MessagePlace {
  int64_t offset_bytes = 0;
  int32_t max_rows = 0;
  int32_t max_pairs = 0;
};

// Writes the row message of every rank but `skip_rank`, ranks without rows included: header with
// num_rows, num_pairs and payload_bytes (max_rows * row_bytes) filled in; pair_begin counted from
// 0; slots; the rows of its tokens. What lies past the counts is left as it was. Rows and pairs
// past a place's room are not written; the header tells the true counts. The plan is
// PlanDispatch's: row_begin [R + 1], row_token [S], pair_begin [S + 1], slot [P].
struct PackRows {
  RowHeader header;              // what all messages share
  const void* tokens = nullptr;  // [T] rows of row_bytes, a multiple of 4
  int64_t row_bytes = 0;
  const int32_t* row_begin = nullptr;
  const int32_t* row_token = nullptr;
  const int32_t* pair_begin = nullptr;
  const int32_t* slot = nullptr;
  const MessagePlace* places = nullptr;  // [R]
  void* messages = nullptr;
  int32_t num_ranks = 0;
  int32_t skip_rank = -1;
  int64_t max_rows = 0;  // of one rank: T; with 0 nothing is written
};

// A stable counting sort of pairs by slot: rows [0, *num_rows) of a message, or rows
// [row_range[0], row_range[1]) of a plan, counted from 0 there too, become num_slots groups, some
// empty: group_begin [num_slots + 1]; within a group ascending pairs; pair_row[i] is the row
// (row_token of the row if that is given), out_offset[i] = (pair - first pair) * hidden_size.
// pair_begin and row_token are the message's or the plan's; pairs may start at any number, and slot
// is indexed by it. Pairs past max_results, and pairs of a slot outside [0, num_slots), are in no
// group and set their flag. The counts may come from another rank: unless the number of rows is in
// [0, max_rows] and the first and last pair_begin in [0, max_pairs] (of a plan: no more than
// max_pairs apart), in order, all groups are empty and kFlagBadMessage is set. pair_row and
// out_offset [max_pairs]; what lies past the groups is left as it was.
struct GroupPairs {
  const int32_t* num_rows = nullptr;
  const int32_t* row_range = nullptr;  // where num_rows is null
  const int32_t* pair_begin = nullptr;
  const int32_t* slot = nullptr;
  const int32_t* row_token = nullptr;
  int32_t* group_begin = nullptr;
  int32_t* pair_row = nullptr;
  int64_t* out_offset = nullptr;
  uint32_t* flags = nullptr;
  int32_t num_slots = 0;
  int64_t max_rows = 0;
  int64_t max_pairs = 0;
  int64_t max_results = 0;
  int64_t hidden_size = 0;
};

// Where the result of each choice lies: with p = pair_of_choice[t, k], r its rank by the plan and
// p0 the rank's first pair, result_offset[t, k] = block_begin[r] + (p - p0) * hidden_size. A pair
// past max_results[r] sets kFlagOverflow and gets block_begin[r]. A choice without a pair (p < 0:
// its token is padding) gets block_begin[0], so that Combine reads memory that is there; its result
// is of no use.
struct LocateResults {
  const int32_t* pair_of_choice = nullptr;  // [T, K]
  const int32_t* row_begin = nullptr;       // [R + 1]
  const int32_t* pair_begin = nullptr;      // [S + 1]
  const int64_t* block_begin = nullptr;     // [R] elements
  const int32_t* max_results = nullptr;     // [R]
  int64_t* result_offset = nullptr;         // [T, K]
  uint32_t* flags = nullptr;
  int64_t num_tokens = 0;
  int64_t top_k = 0;
  int32_t num_ranks = 0;
  int64_t hidden_size = 0;
};

// Writes `value` to a word that the host reads while the device works: how far a step has come. The
// word lies in pinned memory that is mapped into the device, is aligned to 8 bytes, and is read as
// an atomic. What the stream wrote before is visible to a host that has seen the value.
struct MarkProgress {
  uint64_t* word = nullptr;
  uint64_t value = 0;
};

}  // namespace colibri
