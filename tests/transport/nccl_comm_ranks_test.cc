// The communicator with ranks as processes on simulated devices (nccl_comm_suite.cc).
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

class NcclCommRanks : public testing::TestWithParam<Case> {};

TEST_P(NcclCommRanks, Hold) {
  const Case& test = GetParam();
  RankProcesses ranks{"nccl_comm_suite", test.scenario, test.num_ranks, {"COLIBRI_SIM_DEVICES=4"}};
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

// The first exchange of all pairs takes 12 operations with two ranks.
INSTANTIATE_TEST_SUITE_P(
    Scenarios, NcclCommRanks,
    testing::Values(Case{"Exchange", 2}, Case{"Exchange", 4}, Case{"BlockingExchange", 3},
                    Case{"Baselines", 3}, Case{"SilentRank", 2},
                    Case{"SlowRank", 2, "rank=1,op=14,kind=slow:300"}, Case{"DeadRank", 2, "", 1},
                    Case{"DeadRank", 3, "", 1}, Case{"PlantedError", 2, "rank=1,op=13,kind=error"},
                    Case{"StartWithoutARank", 2}, Case{"BlockingStartWithoutARank", 2},
                    Case{"TwoRanksOnOneGpu", 2}),
    case_name);

}  // namespace
}  // namespace colibri
