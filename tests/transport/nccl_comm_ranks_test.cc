// The communicator with ranks as processes on simulated devices (nccl_comm_suite.cc).
#include "tests/transport/rank_processes.h"

namespace colibri {
namespace {

class NcclCommRanks : public testing::TestWithParam<RankCase> {};

TEST_P(NcclCommRanks, Hold) { expect_ok("nccl_comm_suite", GetParam()); }

// The first exchange of all pairs takes 12 operations with two ranks.
INSTANTIATE_TEST_SUITE_P(Scenarios, NcclCommRanks,
                         testing::Values(RankCase{"Exchange", 2}, RankCase{"Exchange", 4},
                                         RankCase{"BlockingExchange", 3}, RankCase{"Baselines", 3},
                                         RankCase{"SilentRank", 2},
                                         RankCase{"SlowRank", 2, "rank=1,op=14,kind=slow:300"},
                                         RankCase{"DeadRank", 2, "", 1},
                                         RankCase{"DeadRank", 3, "", 1},
                                         RankCase{"PlantedError", 2, "rank=1,op=13,kind=error"},
                                         RankCase{"StartWithoutARank", 2},
                                         RankCase{"BlockingStartWithoutARank", 2},
                                         RankCase{"TwoRanksOnOneGpu", 2}),
                         case_name);

}  // namespace
}  // namespace colibri
