#include "topology/machine.h"

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

// The smallest machine that hwloc writes: one package, one NUMA node, one core of two CPUs.
const char* const kXml = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
      allowed_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001"
      allowed_nodeset="0x00000001" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
        nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
          nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3"
          local_memory="2000000000"/>
      <object type="L2Cache" cpuset="0x00000003" complete_cpuset="0x00000003"
          nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4" cache_size="1000000"
          depth="2" cache_linesize="64" cache_associativity="8" cache_type="0">
        <object type="Core" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
            nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5">
          <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
              nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6"/>
          <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
              nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7"/>
        </object>
      </object>
    </object>
  </object>
</topology>
)";

TEST(MachineTest, SyntheticMachineByHand) {
  const Machine machine = machine_from_synthetic("pack:2 numa:2 core:4 pu:2");
  EXPECT_EQ(machine.num_packages, 2);
  ASSERT_EQ(machine.cores.size(), 16u);
  EXPECT_EQ(machine.num_cpus(), 32);
  ASSERT_EQ(machine.numa_nodes.size(), 4u);
  EXPECT_EQ(machine.cores[0], (MachineCore{0, 0, {0, 1}}));
  EXPECT_EQ(machine.cores[4], (MachineCore{0, 1, {8, 9}}));
  EXPECT_EQ(machine.cores[15], (MachineCore{1, 3, {30, 31}}));
}

TEST(MachineTest, CachesAreCountedByLevelAndSize) {
  const Machine machine =
      machine_from_synthetic("pack:2 l3:1(size=16000000) core:2 l1d:1(size=32000) pu:1");
  EXPECT_EQ(machine.caches, (std::vector<MachineCache>{{1, 32000, 4}, {3, 16000000, 2}}));
}

TEST(MachineTest, MemoryIsTheSumOfItsNodes) {
  const Machine machine = machine_from_synthetic("numa:3(memory=4096000) core:1 pu:1");
  EXPECT_EQ(machine.memory_bytes(), 3 * 4096000);
}

TEST(MachineTest, TextIsOneFactALine) {
  EXPECT_EQ(machine_text(machine_from_synthetic(
                "pack:2 numa:1(memory=2000000000) l2:1(size=1000000) core:2 pu:2")),
            "packages 2, cores 4, cpus 8, memory 4.00 GB\n"
            "cache L2 1.00 MB x 2\n"
            "numa 0: 2.00 GB, cores 2, cpus 0-3\n"
            "numa 1: 2.00 GB, cores 2, cpus 4-7\n");
}

TEST(MachineTest, XmlMachineByHand) {
  const Machine machine = machine_from_xml(kXml);
  EXPECT_EQ(machine.num_packages, 1);
  EXPECT_EQ(machine.cores, (std::vector<MachineCore>{{0, 0, {0, 1}}}));
  EXPECT_EQ(machine.caches, (std::vector<MachineCache>{{2, 1000000, 1}}));
  EXPECT_EQ(machine.numa_nodes, (std::vector<MachineNumaNode>{{0, 2000000000}}));
}

TEST(MachineTest, WrongDescriptionsAreNamed) {
  EXPECT_ERROR(machine_from_synthetic("two packages"), kInput, "machine 'two packages'");
  EXPECT_ERROR(machine_from_synthetic(""), kInput, "machine ''");
  EXPECT_ERROR(machine_from_xml("<topology"), kInput, "is not hwloc's XML");
  EXPECT_ERROR(machine_from_xml(""), kInput, "is not hwloc's XML");
}

using Cpus = std::vector<int>;

// Two sockets of two cores, numbered as Linux does: first threads 0-3, second threads 4-7.
std::vector<MachineCore> two_sockets() {
  return {{0, 0, {0, 4}}, {0, 0, {1, 5}}, {1, 1, {2, 6}}, {1, 1, {3, 7}}};
}

TEST(CpusOfRankTest, RanksGetWholeCoresOfOneSocketFirstThreadsFirst) {
  const Cpus all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(cpus_of_rank(two_sockets(), all, 0, 2), (Cpus{0, 1, 4, 5}));
  EXPECT_EQ(cpus_of_rank(two_sockets(), all, 1, 2), (Cpus{2, 3, 6, 7}));
  EXPECT_EQ(cpus_of_rank(two_sockets(), all, 3, 4), (Cpus{3, 7}));
}

TEST(CpusOfRankTest, OrderIsTheMachinesNotThatOfNumbers) {
  // Even CPUs at one socket, odd ones at the other.
  const std::vector<MachineCore> cores = {{0, 0, {0}}, {0, 0, {2}}, {0, 0, {4}},
                                          {1, 1, {1}}, {1, 1, {3}}, {1, 1, {5}}};
  EXPECT_EQ(cpus_of_rank(cores, {0, 1, 2, 3, 4, 5}, 0, 2), (Cpus{0, 2, 4}));
  EXPECT_EQ(cpus_of_rank(cores, {0, 1, 2, 3, 4, 5}, 1, 2), (Cpus{1, 3, 5}));
}

TEST(CpusOfRankTest, OnlyAllowedCpusAreGivenEachToOneRank) {
  const Cpus allowed = {1, 2, 5, 9};  // 9: hwloc does not tell of it
  EXPECT_EQ(cpus_of_rank(two_sockets(), allowed, 0, 2), (Cpus{1, 5}));
  EXPECT_EQ(cpus_of_rank(two_sockets(), allowed, 1, 2), (Cpus{2, 9}));
}

TEST(CpusOfRankTest, MoreRanksThanCoresShareByNumbers) {
  const Cpus all = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const int rank : {0, 3, 7}) {
    EXPECT_EQ(cpus_of_rank(two_sockets(), all, rank, 8), cpus_of_local_rank(all, rank, 8));
    EXPECT_EQ(cpus_of_rank({}, all, rank, 8), cpus_of_local_rank(all, rank, 8));
  }
}

TEST(MachineTest, ThisMachineHasTheCpusItIsAllowed) {
  const Machine machine = probe_machine();
  EXPECT_GE(machine.num_packages, 1);
  EXPECT_GE(machine.numa_nodes.size(), 1u);
  EXPECT_GE(machine.num_cpus(), static_cast<int>(allowed_cpus().size()));
  EXPECT_GT(machine.memory_bytes(), 0);
}

}  // namespace
}  // namespace colibri
