// Operations of an exchange whose plan stays where it was made. On the host they are plain loops,
// the reference of the device's.
#include <atomic>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

constexpr int64_t kPayloadAlignment = 64;

// The front of one rank's message, then its rows.
void pack_message(const PackRows& a, int32_t rank, ThreadPool& pool) {
  const MessagePlace& place = a.places[rank];
  std::byte* message = static_cast<std::byte*>(a.messages) + place.offset_bytes;
  const int32_t first_row = a.row_begin[rank], first_pair = a.pair_begin[first_row];
  RowHeader header = a.header;
  header.num_rows = a.row_begin[rank + 1] - first_row;
  header.num_pairs = a.pair_begin[first_row + header.num_rows] - first_pair;
  header.payload_bytes = static_cast<uint64_t>(place.max_rows * a.row_bytes);
  std::memcpy(message, &header, sizeof header);
  const int32_t num_rows = std::min(header.num_rows, place.max_rows);
  auto* begins = reinterpret_cast<int32_t*>(message + sizeof header);
  int32_t* slots = begins + place.max_rows + 1;
  for (int32_t i = 0; i <= num_rows; ++i) begins[i] = a.pair_begin[first_row + i] - first_pair;
  const int32_t num_pairs = std::min(begins[num_rows], place.max_pairs);
  std::copy_n(a.slot + first_pair, num_pairs, slots);
  const int64_t front = reinterpret_cast<std::byte*>(slots + place.max_pairs) - message;
  std::byte* payload = message + divide_up(front, kPayloadAlignment) * kPayloadAlignment;
  run_ranges(pool, num_rows, a.row_bytes / 4, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto* token =
          static_cast<const std::byte*>(a.tokens) + a.row_token[first_row + i] * a.row_bytes;
      std::memcpy(payload + i * a.row_bytes, token, static_cast<size_t>(a.row_bytes));
    }
  });
}

// Rows in the middle of a plan become rows from 0 on; their number.
int32_t enter_rows(GroupPairs& a) {
  if (a.row_range == nullptr) return *a.num_rows;
  const int32_t first = a.row_range[0];
  a.pair_begin += first;
  if (a.row_token != nullptr) a.row_token += first;
  return a.row_range[1] - first;
}

bool counts_are_in_bounds(const GroupPairs& a, int32_t num_rows) {
  if (num_rows < 0 || num_rows > a.max_rows) return false;
  const int32_t first = a.pair_begin[0], end = a.pair_begin[num_rows];
  return first >= 0 && first <= end && (a.row_range == nullptr ? end : end - first) <= a.max_pairs;
}

// Counts the first num_pairs pairs of each slot, one place to the right, for running sums.
void count_slots(const GroupPairs& a, int64_t num_pairs) {
  for (int64_t i = 0; i < num_pairs; ++i) {
    const int32_t slot = a.slot[a.pair_begin[0] + i];
    if (slot < 0 || slot >= a.num_slots) {
      *a.flags |= kFlagBadSlot;
    } else {
      ++a.group_begin[slot + 1];
    }
  }
  for (int32_t slot = 0; slot < a.num_slots; ++slot) {
    a.group_begin[slot + 1] += a.group_begin[slot];
  }
}

// Fills the groups; leaves each group_begin at the group's end.
void place_pairs(const GroupPairs& a, int64_t num_pairs) {
  int32_t row = 0;
  for (int64_t i = 0; i < num_pairs; ++i) {
    const auto pair = static_cast<int32_t>(a.pair_begin[0] + i);
    while (a.pair_begin[row + 1] <= pair) ++row;
    const int32_t slot = a.slot[pair];
    if (slot < 0 || slot >= a.num_slots) continue;
    const int32_t at = a.group_begin[slot]++;
    a.pair_row[at] = a.row_token == nullptr ? row : a.row_token[row];
    a.out_offset[at] = i * a.hidden_size;
  }
}

}  // namespace

void CpuOps::pack_rows(const PackRows& a, Stream& stream) {
  if (a.max_rows == 0) return;
  for (int32_t rank = 0; rank < a.num_ranks; ++rank) {
    if (rank != a.skip_rank) pack_message(a, rank, host_pool(stream));
  }
}

void CpuOps::group_pairs(const GroupPairs& op, Stream&) {
  GroupPairs a = op;
  const int32_t num_rows = enter_rows(a);
  std::fill_n(a.group_begin, a.num_slots + 1, 0);
  if (!counts_are_in_bounds(a, num_rows)) {
    *a.flags |= kFlagBadMessage;
    return;
  }
  const int64_t all_pairs = a.pair_begin[num_rows] - a.pair_begin[0];
  if (all_pairs > a.max_results) *a.flags |= kFlagOverflow;
  const int64_t num_pairs = std::min(all_pairs, a.max_results);
  count_slots(a, num_pairs);
  place_pairs(a, num_pairs);
  for (int32_t slot = a.num_slots; slot > 0; --slot) a.group_begin[slot] = a.group_begin[slot - 1];
  if (a.num_slots > 0) a.group_begin[0] = 0;
}

void CpuOps::locate_results(const LocateResults& a, Stream&) {
  const auto first_pair = [&a](int32_t rank) { return a.pair_begin[a.row_begin[rank]]; };
  for (int64_t i = 0; i < a.num_tokens * a.top_k; ++i) {
    const int32_t pair = a.pair_of_choice[i];
    int32_t rank = 0;
    while (rank + 1 < a.num_ranks && first_pair(rank + 1) <= pair) ++rank;
    a.result_offset[i] = a.block_begin[rank];
    if (pair < 0) continue;
    const int32_t place = pair - first_pair(rank);
    if (place >= a.max_results[rank]) {
      *a.flags |= kFlagOverflow;
    } else {
      a.result_offset[i] += place * a.hidden_size;
    }
  }
}

void CpuOps::mark_progress(const MarkProgress& a, Stream&) {
  std::atomic_ref<uint64_t>(*a.word).store(a.value, std::memory_order_release);
}

}  // namespace colibri
