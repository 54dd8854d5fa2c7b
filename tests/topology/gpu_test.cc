#include "topology/gpu.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

GpuInfo gpu(int ordinal, const std::string& uuid, int major = 9) {
  GpuInfo info;
  info.ordinal = ordinal;
  info.name = "NVIDIA H100";
  info.uuid = uuid;
  info.major = major;
  info.memory_bytes = 80'000'000'000;
  info.num_multiprocessors = 132;
  info.pci_bus_id = "0000:17:00.0";
  return info;
}

// Ranks of one machine that all see its GPUs.
std::vector<RankGpus> ranks_on(const std::string& node, int num_ranks, int num_gpus,
                               int first_rank = 0) {
  std::vector<RankGpus> ranks;
  for (int i = 0; i < num_ranks; ++i) {
    RankGpus rank{.rank = first_rank + i, .local_rank = i, .node = node};
    for (int g = 0; g < num_gpus; ++g) {
      rank.gpus.push_back(gpu(g, "GPU-" + node + std::to_string(g)));
    }
    ranks.push_back(rank);
  }
  return ranks;
}

using Ordinals = std::vector<int>;

TEST(ChooseGpusTest, EachRankGetsTheGpuOfItsLocalNumber) {
  auto ranks = ranks_on("a", 2, 8);
  for (RankGpus& rank : ranks_on("b", 3, 8, 2)) ranks.push_back(rank);
  EXPECT_EQ(choose_gpus(ranks, false), (Ordinals{0, 1, 0, 1, 2}));
}

TEST(ChooseGpusTest, MoreRanksThanGpusNamesBothNumbers) {
  EXPECT_ERROR(choose_gpus(ranks_on("a", 3, 2), false), kEnvironment,
               "3 ranks on a, but 2 GPUs; want a GPU for each rank");
}

TEST(ChooseGpusTest, RankThatSeesOnlyItsOwnGpuTakesIt) {
  auto ranks = ranks_on("a", 2, 1);
  ranks[1].gpus[0].uuid = "GPU-a1";
  EXPECT_EQ(choose_gpus(ranks, false), (Ordinals{0, 0}));
}

TEST(ChooseGpusTest, NumberThatIsAskedForIsTaken) {
  auto ranks = ranks_on("a", 2, 4);
  ranks[0].wanted_ordinal = 3;
  ranks[1].wanted_ordinal = 2;
  EXPECT_EQ(choose_gpus(ranks, false), (Ordinals{3, 2}));
}

TEST(ChooseGpusTest, NumberThatIsNotThereNamesRankAndCount) {
  auto ranks = ranks_on("a", 1, 2);
  ranks[0].wanted_ordinal = 2;
  EXPECT_ERROR(choose_gpus(ranks, false), kEnvironment, "--device cuda:2: rank 0 on a sees 2 GPUs");
}

TEST(ChooseGpusTest, TwoRanksOnOneGpuAreNamedWithIt) {
  auto ranks = ranks_on("a", 3, 4);
  ranks[0].wanted_ordinal = 1;
  ranks[2].wanted_ordinal = 1;
  ranks[1].wanted_ordinal = 0;
  EXPECT_ERROR(choose_gpus(ranks, false), kEnvironment,
               "ranks 0 and 2 are both on GPU 1 (NVIDIA H100, GPU-a1) of a");
}

TEST(ChooseGpusTest, OneGpuUnderTwoNumbersIsFoundByItsUuid) {
  auto ranks = ranks_on("a", 2, 2);
  std::swap(ranks[1].gpus[0].uuid, ranks[1].gpus[1].uuid);
  EXPECT_ERROR(choose_gpus(ranks, false), kEnvironment, "ranks 0 and 1 are both on");
}

TEST(ChooseGpusTest, UnequalCapabilitiesAreRefusedUnlessAllowed) {
  auto ranks = ranks_on("a", 2, 2);
  for (RankGpus& rank : ranks) rank.gpus[1].minor = 1;
  EXPECT_ERROR(choose_gpus(ranks, false), kEnvironment,
               "rank 0 has an NVIDIA H100 (compute capability 9.0), rank 1 an NVIDIA H100 (9.1)");
  EXPECT_EQ(choose_gpus(ranks, true), (Ordinals{0, 1}));
}

TEST(ChooseGpusTest, UnusedGpuOfAnotherCapabilityDoesNotMatter) {
  auto ranks = ranks_on("a", 2, 3);
  for (RankGpus& rank : ranks) rank.gpus[2].major = 8;
  EXPECT_EQ(choose_gpus(ranks, false), (Ordinals{0, 1}));
}

TEST(ChooseGpusTest, RankThatSeesTooFewIsNamed) {
  auto ranks = ranks_on("a", 3, 4);
  ranks[2].gpus.resize(2);
  EXPECT_ERROR(choose_gpus(ranks, false), kEnvironment, "rank 2 is number 2 on a and sees 2 GPUs");
}

using Cpus = std::vector<int>;

TEST(ShareNearCpusTest, RanksAtTheSamePlaceShareItsCpus) {
  const std::vector<Cpus> near = {{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}};
  EXPECT_EQ(share_near_cpus(near, 0), (Cpus{0, 1}));
  EXPECT_EQ(share_near_cpus(near, 1), (Cpus{4, 5}));
  EXPECT_EQ(share_near_cpus(near, 2), (Cpus{2, 3}));
  EXPECT_EQ(share_near_cpus(near, 3), (Cpus{6, 7}));
}

TEST(ShareNearCpusTest, MoreRanksThanCpusShareACpu) {
  EXPECT_EQ(share_near_cpus(std::vector<Cpus>{{5}, {5}, {5}}, 2), (Cpus{5}));
}

TEST(ShareNearCpusTest, WhereNothingIsKnownNothingIsShared) {
  EXPECT_TRUE(share_near_cpus(std::vector<Cpus>{{}, {1}}, 0).empty());
}

TEST(GpuTextTest, EqualLinksAreOneLine) {
  GpuProbe probe;
  for (int i = 0; i < 2; ++i) {
    probe.gpus.push_back(gpu(i, "GPU-" + std::to_string(i)));
    probe.gpus.back().peers = {PeerLink::kAtomic, PeerLink::kAtomic};
    probe.gpus.back().peers[static_cast<size_t>(i)] = PeerLink::kNone;
  }
  EXPECT_EQ(gpu_text(probe),
            "GPU 0: NVIDIA H100, compute capability 9.0, 132 multiprocessors, 80.0 GB, PCI "
            "0000:17:00.0, GPU-0\n"
            "GPU 1: NVIDIA H100, compute capability 9.0, 132 multiprocessors, 80.0 GB, PCI "
            "0000:17:00.0, GPU-1\n"
            "peer links: all 2 GPUs reach each other directly (NVLink)\n");
}

TEST(GpuTextTest, UnequalLinksAreALineEach) {
  GpuProbe probe;
  for (int i = 0; i < 3; ++i) probe.gpus.push_back(gpu(i, "GPU"));
  probe.gpus[0].peers = {PeerLink::kNone, PeerLink::kAtomic, PeerLink::kDirect};
  probe.gpus[1].peers = {PeerLink::kAtomic, PeerLink::kNone, PeerLink::kNone};
  probe.gpus[2].peers = {PeerLink::kDirect, PeerLink::kNone, PeerLink::kNone};
  EXPECT_NE(gpu_text(probe).find("peer links of GPU 0: 1 NVLink 2 PCIe\n"
                                 "peer links of GPU 1: 0 NVLink 2 none\n"),
            std::string::npos);
}

TEST(GpuProbeTest, ProblemIsTheErrorsText) {
  EXPECT_ERROR(require_gpu({.problem = "no NVIDIA driver is loaded here"}), kEnvironment,
               "--device cuda: no NVIDIA driver is loaded here");
}

TEST(GpuProbeTest, VersionsReadAsPeopleWriteThem) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
}

}  // namespace
}  // namespace colibri
