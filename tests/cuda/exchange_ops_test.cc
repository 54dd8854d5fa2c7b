// Operations of an exchange whose plan stays on the GPU, byte for byte against the CPU backend.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/cuda/cuda_rig.h"
#include "tests/kernels/exchange_rig.h"

namespace colibri {
namespace {

struct Sides {
  CudaRig rig;
  Side cpu{*rig.cpu, *rig.cpu_device, *rig.cpu_stream};
  Side cuda{*rig.cuda, *rig.device, *rig.stream};
};

PackCase random_pack(int64_t num_tokens, int32_t num_ranks, int64_t width) {
  PackCase one;
  one.plan = plan_of(random_choices(num_tokens, 3, num_ranks, static_cast<uint32_t>(width)));
  one.tokens = random_floats(num_tokens * width, 2);
  one.width = width;
  one.skip_rank = num_ranks / 2;
  return one;
}

TEST(CudaPackRows, HasTheCpusBytesForEveryWidth) {
  Sides sides;
  for (const int64_t width : {1, 4, 6, 515, 1100}) {
    PackCase one = random_pack(9, 3, width);
    place_exactly(one);
    EXPECT_EQ(pack(sides.cuda, one), pack(sides.cpu, one)) << width;
  }
}

TEST(CudaPackRows, HasTheCpusBytesForEveryNumberOfTokensAndRanks) {
  Sides sides;
  for (const int64_t tokens : {0, 1, 2, 33}) {
    for (const int32_t ranks : {1, 2, 5}) {
      PackCase one = random_pack(tokens, ranks, 8);
      if (tokens % 2 == 0) one.skip_rank = -1;
      place_exactly(one);
      EXPECT_EQ(pack(sides.cuda, one), pack(sides.cpu, one)) << tokens << " to " << ranks;
    }
  }
}

TEST(CudaPackRows, LeavesRoomPastTheCountsAlone) {
  Sides sides;
  PackCase one = random_pack(6, 4, 12);
  place_with_room(one, 6, 18);
  EXPECT_EQ(pack(sides.cuda, one), pack(sides.cpu, one));
}

TEST(CudaPackRows, WritesNothingPastTheRoom) {
  Sides sides;
  for (const int32_t rows : {0, 1, 4}) {
    for (const int32_t pairs : {0, 3, 7}) {
      PackCase one = random_pack(12, 2, 4);
      one.skip_rank = -1;
      place_with_room(one, rows, pairs);
      EXPECT_EQ(pack(sides.cuda, one), pack(sides.cpu, one)) << rows << " rows, " << pairs;
    }
  }
}

TEST(CudaGroupPairs, HasTheCpusGroupsForEveryNumberOfTokensAndSlots) {
  Sides sides;
  for (const int64_t tokens : {0, 1, 5, 40, 700}) {
    const Plan plan = plan_of(random_choices(tokens, 4, 2, static_cast<uint32_t>(tokens)));
    for (const int32_t slots : {9, 12}) {
      for (const int32_t rank : {0, 1}) {
        GroupCase one = rows_of(plan, rank, slots);
        EXPECT_EQ(group(sides.cuda, one), group(sides.cpu, one)) << tokens << " on " << slots;
        one.row_token.clear();
        EXPECT_EQ(group(sides.cuda, one), group(sides.cpu, one)) << tokens << " on " << slots;
      }
    }
  }
}

TEST(CudaGroupPairs, GroupsRangesOfAPlanAsTheCpu) {
  Sides sides;
  const Plan plan = plan_of(random_choices(45, 4, 4, 6));
  for (int32_t rank = 0; rank < 4; ++rank) {
    GroupCase one = range_of(plan, rank, 9);
    EXPECT_EQ(group(sides.cuda, one), group(sides.cpu, one)) << rank;
    one.row_token.clear();
    EXPECT_EQ(group(sides.cuda, one), group(sides.cpu, one)) << rank;
    one.max_rows = one.num_rows - 1;
    EXPECT_EQ(group(sides.cuda, one).flags, kFlagBadMessage) << rank;
  }
}

TEST(CudaGroupPairs, TakesAllPairsOnOneSlot) {
  Sides sides;
  Choices choices = random_choices(900, 3, 1, 1);
  for (int32_t& slot : choices.slot) slot = 1;
  for (const int32_t slots : {2, 4}) {
    const GroupCase one = rows_of(plan_of(choices), 0, slots);
    EXPECT_EQ(group(sides.cuda, one), group(sides.cpu, one)) << slots;
  }
}

TEST(CudaGroupPairs, HasTheCpusGroupsWhenTheBoundsAreWide) {
  Sides sides;
  GroupCase one = rows_of(plan_of(random_choices(20, 4, 2, 3)), 1, 10);
  one.max_rows = 1000;
  one.max_pairs = one.max_results = 5000;  // several warps a block, most without pairs
  EXPECT_EQ(group(sides.cuda, one), group(sides.cpu, one));
}

TEST(CudaGroupPairs, DropsAndFlagsAsTheCpu) {
  Sides sides;
  const GroupCase fits = rows_of(plan_of(random_choices(30, 4, 2, 5)), 1, 9);
  std::vector<GroupCase> cases(8, fits);
  cases[0].num_slots = 0;
  cases[1].num_slots = 4;
  cases[2].slot.back() = -1;
  cases[3].max_results = 10;
  cases[4].max_results = 0;
  cases[5].num_rows = -1;
  cases[6].max_pairs = 20;
  cases[7].max_rows = 5;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Groups got = group(sides.cuda, cases[i]);
    EXPECT_NE(got.flags, 0u) << i;
    EXPECT_EQ(got, group(sides.cpu, cases[i])) << i;
  }
}

LocateCase random_locate(int64_t tokens, int32_t ranks) {
  LocateCase one;
  one.plan = plan_of(random_choices(tokens, 3, ranks, static_cast<uint32_t>(ranks)));
  one.top_k = 3;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    one.block_begin.push_back(1000 * rank + 16);
    one.max_results.push_back(static_cast<int32_t>(tokens * 3));
  }
  return one;
}

TEST(CudaLocateResults, HasTheCpusOffsets) {
  Sides sides;
  for (const int64_t tokens : {0, 1, 50, 300}) {
    for (const int32_t ranks : {1, 2, 7, 200}) {
      LocateCase one = random_locate(tokens, ranks);
      EXPECT_EQ(locate(sides.cuda, one), locate(sides.cpu, one)) << tokens << " on " << ranks;
    }
  }
}

TEST(CudaLocateResults, FlagsOverflowAndPassesChoicesWithoutPairs) {
  Sides sides;
  LocateCase one = random_locate(50, 4);
  one.max_results[2] = 5;
  one.plan.pair_of_choice.back() = -1;
  const Located got = locate(sides.cuda, one);
  EXPECT_EQ(got.flags, kFlagOverflow);
  EXPECT_EQ(got.offset.back(), one.block_begin.front());
  EXPECT_EQ(got, locate(sides.cpu, one));
}

TEST(CudaMarkProgress, IsSeenInMappedHostMemory) {
  CudaRig rig;
  uint64_t* word = nullptr;
  ASSERT_EQ(cudaHostAlloc(&word, sizeof *word, cudaHostAllocMapped), cudaSuccess);
  rig.cuda->mark_progress({.word = word, .value = 0x123456789ABCDEFu}, *rig.stream);
  rig.stream->synchronize();
  EXPECT_EQ(std::atomic_ref<uint64_t>(*word).load(), 0x123456789ABCDEFu);
  EXPECT_EQ(cudaFreeHost(word), cudaSuccess);
}

}  // namespace
}  // namespace colibri
