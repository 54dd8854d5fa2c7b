// The simulated NCCL with ranks as processes (simulated_nccl_suite.cc).
#include <gtest/gtest.h>

#include "tests/transport/rank_processes.h"

namespace colibri {
namespace {

struct Case {
  std::string scenario;
  int num_ranks;
  std::string fault = "";
  int victim = -1;
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.scenario << " on " << test.num_ranks << " ranks";
}

class SimulatedNcclRanks : public testing::TestWithParam<Case> {};

TEST_P(SimulatedNcclRanks, Hold) {
  const Case& test = GetParam();
  RankProcesses ranks{
      "simulated_nccl_suite", test.scenario, test.num_ranks, {"COLIBRI_SIM_DEVICES=4"}};
  if (!test.fault.empty()) ranks.environment.push_back("COLIBRI_SIM_NCCL_FAULT=" + test.fault);
  const auto reports = reports_of(ranks);
  for (int rank = 0; rank < test.num_ranks; ++rank) {
    if (rank == test.victim) continue;
    EXPECT_EQ(reports[static_cast<size_t>(rank)], "ok") << "rank " << rank << "\n"
                                                        << reports.back();
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.scenario + "On" + std::to_string(info.param.num_ranks);
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, SimulatedNcclRanks,
    testing::Values(Case{"Exchange", 2}, Case{"Exchange", 4}, Case{"NonblockingExchange", 3},
                    Case{"Collectives", 3}, Case{"Replayed", 2}, Case{"MismatchedCount", 2},
                    Case{"OneSidedPair", 2}, Case{"EqualOrders", 2}, Case{"OppositeOrders", 2},
                    Case{"DuplicateDevice", 2}, Case{"PlantedError", 2, "rank=1,op=1,kind=error"},
                    Case{"KilledRank", 2, "rank=1,op=1,kind=abort", 1}, Case{"Shrunk", 3}),
    case_name);

}  // namespace
}  // namespace colibri
