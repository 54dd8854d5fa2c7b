// Row messages, groups of pairs and places of results on the host, against what the wire and the
// definitions say.
#include "kernels/exchange_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/kernels/exchange_rig.h"
#include "tests/kernels/kernel_rig.h"
#include "transport/row_batch.h"

namespace colibri {
namespace {

struct Host {
  Rig rig{Isa::kPortable};
  Side side{*rig.ops, *rig.device, *rig.stream};
};

// coordinator/dispatch_plan.h's example: T = 2, K = 2; rank 0 holds experts 0 and 1, rank 1 holds 2
// and 3; the choices are 0 3 | 2 3.
Plan header_example() {
  return plan_of(
      {.num_tokens = 2, .top_k = 2, .num_ranks = 2, .rank = {0, 1, 1, 1}, .slot = {0, 1, 0, 1}});
}

PackCase random_pack(int64_t num_tokens, int32_t num_ranks, int64_t width) {
  PackCase one;
  one.plan = plan_of(random_choices(num_tokens, 3, num_ranks, 1));
  one.tokens = random_floats(num_tokens * width, 2);
  one.width = width;
  return one;
}

std::span<const std::byte> message_of(const PackCase& one, const std::vector<std::byte>& bytes,
                                      int32_t rank) {
  const MessagePlace& place = one.places[static_cast<size_t>(rank)];
  return std::span(bytes).subspan(
      static_cast<size_t>(place.offset_bytes),
      row_message_layout(place.max_rows, place.max_pairs, one.width * 4).total_bytes);
}

RowMessageView parsed(const PackCase& one, std::span<const std::byte> message) {
  return parse_row_message(message, 1,
                           {.kind = RowKind::kRows,
                            .epoch = 3,
                            .hidden_size = static_cast<int32_t>(one.width),
                            .num_layers = 3,
                            .max_rows = 100,
                            .max_pairs = 300});
}

TEST(PackRows, MessageOfExactCountsIsWhatTheWireSays) {
  Host host;
  PackCase one = random_pack(7, 3, 5);
  place_exactly(one);
  const auto bytes = pack(host.side, one);
  for (int32_t rank = 0; rank < 3; ++rank) {
    const RowMessageView view = parsed(one, message_of(one, bytes, rank));
    const GroupCase want = rows_of(one.plan, rank, 9);
    EXPECT_EQ(view.header->step, 41u);
    EXPECT_EQ(view.header->layer, 2);
    ASSERT_EQ(view.header->num_rows, want.num_rows);
    const int32_t first = want.pair_begin.front();
    for (size_t i = 0; i < want.pair_begin.size(); ++i) {
      EXPECT_EQ(view.pair_begin[i], want.pair_begin[i] - first);
    }
    for (size_t p = 0; p < view.slots.size(); ++p) {
      EXPECT_EQ(view.slots[p], want.slot[static_cast<size_t>(first) + p]);
    }
    for (size_t i = 0; i < want.row_token.size(); ++i) {
      EXPECT_EQ(std::memcmp(view.payload + i * 20,
                            &one.tokens[static_cast<size_t>(want.row_token[i]) * 5], 20),
                0);
    }
  }
}

TEST(PackRows, RankWithoutRowsGetsAnEmptyMessage) {
  Host host;
  PackCase one;
  one.plan = plan_of({.num_tokens = 1, .top_k = 1, .num_ranks = 2, .rank = {1}, .slot = {4}});
  one.tokens = {1.5f};
  one.width = 1;
  place_exactly(one);
  const auto bytes = pack(host.side, one);
  EXPECT_EQ(parsed(one, message_of(one, bytes, 0)).header->num_rows, 0);
  const RowMessageView view = parsed(one, message_of(one, bytes, 1));
  EXPECT_EQ(view.slots[0], 4);
}

TEST(PackRows, RoomPastTheCountsIsLeftAlone) {
  Host host;
  PackCase one;
  one.plan = header_example();
  one.tokens = {1, 2};
  one.width = 1;
  place_with_room(one, 3, 5);
  const auto bytes = pack(host.side, one);
  const auto message = message_of(one, bytes, 0);
  // 64 header | begins 0 1 . . | slots 0 . . . . | padding to 128 | rows 1 . .
  Ints words(message.size() / 4);
  std::memcpy(words.data(), message.data(), message.size());
  const Ints front(words.begin() + 16, words.begin() + 32);
  Ints want(16, kUntouched);
  want[0] = 0;
  want[1] = 1;
  want[4] = 0;
  EXPECT_EQ(front, want);
  EXPECT_EQ(words[32], 0x3F800000);
  EXPECT_EQ(words[33], kUntouched);
  EXPECT_EQ(words[34], kUntouched);
  RowHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  EXPECT_EQ(header.num_rows, 1);
  EXPECT_EQ(header.num_pairs, 1);
  EXPECT_EQ(header.payload_bytes, 12u);
}

TEST(PackRows, TheSkippedRankGetsNothing) {
  Host host;
  PackCase one = random_pack(4, 2, 3);
  one.skip_rank = 1;
  place_exactly(one);
  const auto bytes = pack(host.side, one);
  for (const std::byte byte : message_of(one, bytes, 1).subspan(0, 64)) {
    EXPECT_TRUE(byte == std::byte{0xF9} || byte == std::byte{0xFF});
  }
}

TEST(PackRows, WhatDoesNotFitIsNotWritten) {
  Host host;
  PackCase one;
  one.plan = header_example();
  one.tokens = {1, 2};
  one.width = 1;
  place_with_room(one, 1, 1);  // rank 1 has two rows with three pairs
  const auto bytes = pack(host.side, one);
  const auto message = message_of(one, bytes, 1);
  RowHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  EXPECT_EQ(header.num_rows, 2);
  EXPECT_EQ(header.num_pairs, 3);
  Ints words(message.size() / 4);
  std::memcpy(words.data(), message.data(), message.size());
  EXPECT_EQ(Ints(words.begin() + 16, words.begin() + 20), (Ints{0, 1, 1, kUntouched}));
}

// The definition: pairs that count, stably sorted by slot.
Groups sorted_by_slot(const GroupCase& one) {
  Groups want;
  const int32_t first = one.pair_begin.front();
  std::vector<std::pair<int32_t, int32_t>> row_of_pair;  // pair, row
  for (int32_t row = 0; row < one.num_rows; ++row) {
    for (int32_t p = one.pair_begin[static_cast<size_t>(row)];
         p < one.pair_begin[static_cast<size_t>(row) + 1]; ++p) {
      if (p - first < one.max_results) row_of_pair.emplace_back(p, row);
    }
  }
  const auto slot = [&](const auto& pair) { return one.slot[static_cast<size_t>(pair.first)]; };
  std::stable_sort(row_of_pair.begin(), row_of_pair.end(),
                   [&](const auto& a, const auto& b) { return slot(a) < slot(b); });
  want.pair_row.assign(static_cast<size_t>(one.max_pairs), kUntouched);
  want.out_offset.assign(static_cast<size_t>(one.max_pairs), kUntouched);
  for (size_t i = 0; i < row_of_pair.size(); ++i) {
    const auto row = static_cast<size_t>(row_of_pair[i].second);
    want.pair_row[i] = one.row_token.empty() ? row_of_pair[i].second : one.row_token[row];
    want.out_offset[i] = (row_of_pair[i].first - first) * one.hidden_size;
  }
  for (int32_t s = 0; s <= one.num_slots; ++s) {
    want.group_begin.push_back(static_cast<int32_t>(std::count_if(
        row_of_pair.begin(), row_of_pair.end(), [&](const auto& p) { return slot(p) < s; })));
  }
  return want;
}

TEST(GroupPairs, IsAStableSortBySlot) {
  Host host;
  for (const int64_t tokens : {1, 2, 17, 60}) {
    const Plan plan = plan_of(random_choices(tokens, 4, 3, static_cast<uint32_t>(tokens)));
    for (int32_t rank = 0; rank < 3; ++rank) {  // ranks 1 and 2 have pairs from above 0 on
      GroupCase one = rows_of(plan, rank, 11);
      EXPECT_EQ(group(host.side, one), sorted_by_slot(one)) << tokens << " tokens";
      one.row_token.clear();
      EXPECT_EQ(group(host.side, one), sorted_by_slot(one)) << tokens << " tokens";
    }
  }
}

TEST(GroupPairs, ARangeOfAPlanIsGroupedAsItsRowsAlone) {
  Host host;
  const Plan plan = plan_of(random_choices(23, 4, 3, 6));
  for (int32_t rank = 0; rank < 3; ++rank) {
    GroupCase alone = rows_of(plan, rank, 9), range = range_of(plan, rank, 9);
    EXPECT_EQ(group(host.side, range), group(host.side, alone));
    alone.row_token.clear();
    range.row_token.clear();
    EXPECT_EQ(group(host.side, range), group(host.side, alone));
  }
}

TEST(GroupPairs, HandExample) {
  Host host;
  // Rows of pairs 5 6 | 7 with slots 2 0 | 2, tokens 8 and 9.
  const Groups got = group(host.side, {.num_rows = 2,
                                       .pair_begin = {5, 7, 8},
                                       .slot = {1, 1, 1, 1, 1, 2, 0, 2},
                                       .row_token = {8, 9},
                                       .num_slots = 3,
                                       .max_rows = 2,
                                       .max_pairs = 8,
                                       .max_results = 3,
                                       .hidden_size = 10});
  EXPECT_EQ(got.group_begin, (Ints{0, 1, 1, 3}));
  EXPECT_EQ(Ints(got.pair_row.begin(), got.pair_row.begin() + 3), (Ints{8, 8, 9}));
  EXPECT_EQ(got.out_offset[0], 10);
  EXPECT_EQ(got.out_offset[1], 0);
  EXPECT_EQ(got.out_offset[2], 20);
  EXPECT_EQ(got.flags, 0u);
}

GroupCase three_rows() {  // of one pair each, for slots 1 0 1
  return {.num_rows = 3,
          .pair_begin = {0, 1, 2, 3},
          .slot = {1, 0, 1},
          .num_slots = 2,
          .max_rows = 3,
          .max_pairs = 3,
          .max_results = 3,
          .hidden_size = 1};
}

TEST(GroupPairs, NoRowsGiveEmptyGroups) {
  Host host;
  GroupCase one = three_rows();
  one.num_rows = 0;
  const Groups got = group(host.side, one);
  EXPECT_EQ(got.group_begin, (Ints{0, 0, 0}));
  EXPECT_EQ(got.pair_row, Ints(3, kUntouched));
  EXPECT_EQ(got.flags, 0u);
}

TEST(GroupPairs, ASlotThatIsNotThereSetsItsFlagAndIsInNoGroup) {
  Host host;
  for (const int32_t bad : {-1, 2}) {
    GroupCase one = three_rows();
    one.slot[0] = bad;
    const Groups got = group(host.side, one);
    EXPECT_EQ(got.group_begin, (Ints{0, 1, 2}));
    EXPECT_EQ(got.pair_row, (Ints{1, 2, kUntouched}));
    EXPECT_EQ(got.flags, kFlagBadSlot);
  }
}

TEST(GroupPairs, WithoutSlotsEveryPairIsBad) {
  Host host;
  GroupCase one = three_rows();
  one.num_slots = 0;
  const Groups got = group(host.side, one);
  EXPECT_EQ(got.group_begin, (Ints{0}));
  EXPECT_EQ(got.flags, kFlagBadSlot);
}

TEST(GroupPairs, PairsPastTheResultsAreDroppedAndSetTheirFlag) {
  Host host;
  GroupCase one = three_rows();
  one.max_results = 2;
  const Groups got = group(host.side, one);
  EXPECT_EQ(got.group_begin, (Ints{0, 1, 2}));
  EXPECT_EQ(got.pair_row, (Ints{1, 0, kUntouched}));
  EXPECT_EQ(got.flags, kFlagOverflow);
}

TEST(GroupPairs, CountsOutOfBoundsGiveEmptyGroupsAndTheirFlag) {
  Host host;
  std::vector<GroupCase> cases(5, three_rows());
  cases[0].num_rows = -1;
  cases[1].max_rows = 2;
  cases[2].max_pairs = 2;
  cases[3].pair_begin = {-1, 1, 2, 3};
  cases[4].pair_begin = {3, 1, 2, 2};
  for (const GroupCase& one : cases) {
    const Groups got = group(host.side, one);
    EXPECT_EQ(got.group_begin, (Ints{0, 0, 0}));
    EXPECT_EQ(got.flags, kFlagBadMessage);
  }
}

TEST(LocateResults, HandExample) {
  Host host;
  // Pairs 0 | 1 2 3; blocks at 100 and 200, three numbers a result.
  const Located got = locate(
      host.side,
      {.plan = header_example(), .top_k = 2, .block_begin = {100, 200}, .max_results = {1, 3}});
  EXPECT_EQ(got.offset, (std::vector<int64_t>{100, 200, 203, 206}));
  EXPECT_EQ(got.flags, 0u);
}

TEST(LocateResults, PairPastTheResultsSetsTheFlagAndLiesAtItsBlock) {
  Host host;
  const Located got = locate(
      host.side,
      {.plan = header_example(), .top_k = 2, .block_begin = {100, 200}, .max_results = {1, 2}});
  EXPECT_EQ(got.offset, (std::vector<int64_t>{100, 200, 203, 200}));
  EXPECT_EQ(got.flags, kFlagOverflow);
}

TEST(LocateResults, RanksWithoutPairsArePassedOver) {
  Host host;
  const Plan plan =
      plan_of({.num_tokens = 2, .top_k = 1, .num_ranks = 5, .rank = {1, 3}, .slot = {0, 0}});
  const Located got = locate(host.side, {.plan = plan,
                                         .top_k = 1,
                                         .block_begin = {10, 20, 30, 40, 50},
                                         .max_results = {1, 1, 1, 1, 1}});
  EXPECT_EQ(got.offset, (std::vector<int64_t>{20, 40}));
}

TEST(LocateResults, AChoiceWithoutAPairLiesAtTheFirstBlock) {
  Host host;
  Plan plan = header_example();
  plan.pair_of_choice[3] = -1;
  const Located got = locate(
      host.side, {.plan = plan, .top_k = 2, .block_begin = {100, 200}, .max_results = {1, 3}});
  EXPECT_EQ(got.offset[3], 100);
  EXPECT_EQ(got.flags, 0u);
}

TEST(MarkProgress, WritesItsWord) {
  Host host;
  uint64_t word = 0;
  host.side.ops.mark_progress({.word = &word, .value = 0x123456789ABCDEFu}, host.side.stream);
  EXPECT_EQ(word, 0x123456789ABCDEFu);
}

}  // namespace
}  // namespace colibri
