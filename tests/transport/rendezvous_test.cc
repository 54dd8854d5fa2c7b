#include "transport/rendezvous.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace colibri {
namespace {

using Variables = std::map<std::string, std::string>;

RankInfo find_in(const Variables& variables) {
  return find_rank([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(RendezvousTest, ProcessStartedByNobodyIsAlone) {
  const RankInfo who = find_in({});
  EXPECT_TRUE(who.is_alone());
  EXPECT_FALSE(who.started_by_launcher());
}

TEST(RendezvousTest, MpirunTellsRankAndLocalRank) {
  const RankInfo who = find_in({{"OMPI_COMM_WORLD_RANK", "5"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(who.rank, 5);
  EXPECT_EQ(who.size, 8);
  EXPECT_EQ(who.local_rank, 1);
  EXPECT_EQ(who.num_local_ranks, 4);
  EXPECT_EQ(who.launcher, "mpirun");
}

TEST(RendezvousTest, MpirunWithOneRankIsAloneToo) {
  const RankInfo who = find_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_TRUE(who.is_alone());
  EXPECT_TRUE(who.started_by_launcher());
}

TEST(RendezvousTest, SrunTellsNodeAndTasksOnIt) {
  const RankInfo who = find_in({{"SLURM_PROCID", "6"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "7"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_NODEID", "3"},
                                {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}});
  EXPECT_EQ(who.rank, 6);
  EXPECT_EQ(who.node_idx, 3);
  EXPECT_EQ(who.num_local_ranks, 1);
}

TEST(RendezvousTest, ProcessOfASlurmBatchScriptIsAlone) {
  EXPECT_TRUE(find_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).is_alone());
}

TEST(RendezvousTest, PmiTellsRankAndSize) {
  const RankInfo who = find_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(who.rank, 1);
  EXPECT_EQ(who.size, 2);
  EXPECT_EQ(who.launcher, "pmi");
}

void expect_refused(const Variables& variables, const std::string& part) {
  try {
    find_in(variables);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(RendezvousTest, RankThatIsNoNumberIsRefused) {
  expect_refused({{"OMPI_COMM_WORLD_RANK", "one"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
                 "OMPI_COMM_WORLD_RANK is 'one'");
}

TEST(RendezvousTest, MissingSizeIsRefused) {
  expect_refused({{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE is ''");
}

TEST(RendezvousTest, RankBeyondTheSizeIsRefused) {
  expect_refused({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}, "rank 2 of 2");
}

TEST(RendezvousTest, NegativeRankIsRefused) {
  expect_refused({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}, "PMI_RANK is '-1'");
}

TEST(RendezvousTest, LocalRankBeyondTheMachineIsRefused) {
  expect_refused({{"OMPI_COMM_WORLD_RANK", "0"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
                 "local rank 2 of 2");
}

TEST(RendezvousTest, HostHashStaysTheSame) { EXPECT_EQ(host_hash(), host_hash()); }

}  // namespace
}  // namespace colibri
