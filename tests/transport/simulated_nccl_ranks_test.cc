// The simulated NCCL with ranks as processes (simulated_nccl_suite.cc).
#include "tests/transport/rank_processes.h"

namespace colibri {
namespace {

class SimulatedNcclRanks : public testing::TestWithParam<RankCase> {};

TEST_P(SimulatedNcclRanks, Hold) { expect_ok("simulated_nccl_suite", GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Scenarios, SimulatedNcclRanks,
    testing::Values(RankCase{"Exchange", 2}, RankCase{"Exchange", 4},
                    RankCase{"NonblockingExchange", 3}, RankCase{"Collectives", 3},
                    RankCase{"Replayed", 2}, RankCase{"MismatchedCount", 2},
                    RankCase{"OneSidedPair", 2}, RankCase{"EqualOrders", 2},
                    RankCase{"OppositeOrders", 2}, RankCase{"DuplicateDevice", 2},
                    RankCase{"PlantedError", 2, "rank=1,op=1,kind=error"},
                    RankCase{"KilledRank", 2, "rank=1,op=1,kind=abort", 1}, RankCase{"Shrunk", 3}),
    case_name);

}  // namespace
}  // namespace colibri
