#include "launch/this_machine.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "transport/local_transport.h"

namespace colibri {
namespace {

// A host of one CPU and one adapter.
ProbedCluster host_of(int num_cores) {
  ProbedCluster host = cluster_from_synthetic("pack:1 core:" + std::to_string(num_cores) + " pu:1");
  host.cluster.parts.push_back({.kind = PartKind::kNic, .name = "node0.nic0"});
  host.cluster.links.push_back({0, 1, "pcie4-x16", 24, 0.7});
  host.notes = {"made up"};
  return host;
}

struct Outcome {
  ProbedCluster machine;
  std::string error;  // empty: none
};

// A thread for each rank: `local_ranks` of two hosts, of 2 and of 4 cores.
std::vector<Outcome> see(const std::vector<int>& local_ranks,
                         const std::function<ProbedCluster(int cores)>& host) {
  const size_t size = local_ranks.size();
  LocalFabric fabric(static_cast<int>(size));
  std::vector<Outcome> outcomes(size);
  const auto run_one = [&](size_t rank) {
    const auto transport = fabric.endpoint(static_cast<int>(rank));
    RankContext context{.rank = static_cast<int>(rank),
                        .size = static_cast<int>(size),
                        .local_rank = local_ranks[rank],
                        .transport = transport.get(),
                        .log = {}};
    try {
      outcomes[rank].machine =
          machine_of_ranks(context, 5000, [&] { return host(rank == 0 ? 2 : 4); });
    } catch (const AgreedError& error) {
      outcomes[rank].error = error.what();
    }
  };
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < size; ++rank) ranks.emplace_back(run_one, rank);
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

TEST(MachineOfRanks, EachHostIsANodeInOrderOfItsFirstRank) {
  const std::vector<Outcome> outcomes = see({0, 1, 0, 1, 2}, host_of);
  const Cluster& cluster = outcomes[0].machine.cluster;
  ASSERT_EQ(cluster.num_nodes(), 2);
  const std::vector<int> cpus = cluster.parts_of(PartKind::kCpu);
  ASSERT_EQ(cpus.size(), 2u);
  EXPECT_EQ(cluster.parts[static_cast<size_t>(cpus[0])].num_cores, 2);
  EXPECT_EQ(cluster.parts[static_cast<size_t>(cpus[1])].num_cores, 4);
  EXPECT_TRUE(outcomes[4].machine.cluster.parts.empty());
}

TEST(MachineOfRanks, NotesSayWhichNodeTheyAreOf) {
  EXPECT_EQ(see({0, 0}, host_of)[0].machine.notes,
            (std::vector<std::string>{"node 0: made up", "node 1: made up",
                                      "adapters that tell no rate are taken for ib-400g"}));
}

TEST(MachineOfRanks, AHostThatCannotBeSeenOrJoinedIsOneErrorEverywhere) {
  const auto blind = [](int cores) -> ProbedCluster {
    if (cores == 4) fail(ErrorKind::kEnvironment, "hwloc cannot read this machine");
    return host_of(cores);
  };
  const auto without_nic = [](int) { return cluster_from_synthetic("pack:1 core:2 pu:1"); };
  for (const Outcome& outcome : see({0, 0}, blind)) {
    EXPECT_EQ(outcome.error, "hwloc cannot read this machine");
  }
  for (const Outcome& outcome : see({0, 0}, without_nic)) {
    EXPECT_NE(outcome.error.find("host 0 of 2 has no network adapter"), std::string::npos)
        << outcome.error;
  }
}

TEST(MachineOfRanks, ARankAloneSeesItsMachine) {
  RankContext alone;
  EXPECT_EQ(machine_of_ranks(alone, 5000, [] { return host_of(3); }).cluster.parts[0].num_cores, 3);
}

}  // namespace
}  // namespace colibri
