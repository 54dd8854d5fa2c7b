// Runs the suite with ranks as threads.
#include "transport/local_transport.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "base/backoff.h"
#include "tests/transport/transport_suite.h"

namespace colibri {
namespace {

struct Case {
  Scenario scenario;
  int num_ranks;
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.scenario.name << " on " << test.num_ranks << " ranks";
}

void run_rank(LocalFabric& fabric, int rank, const Scenario& scenario) {
  const auto transport = fabric.endpoint(rank);
  RankContext context{*transport,
                      [&] {
                        fabric.kill(rank);
                        throw RankDied{};
                      },
                      [&] {
                        Backoff backoff(false);
                        try {
                          for (;; backoff.pause()) transport->progress();
                        } catch (const Error&) {
                          throw RankDied{};
                        }
                      }};
  scenario.run(context);
}

class LocalTransportTest : public testing::TestWithParam<Case> {};

TEST_P(LocalTransportTest, Holds) {
  const Case& test = GetParam();
  LocalFabric fabric(test.num_ranks);
  std::vector<std::string> failures(static_cast<size_t>(test.num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < test.num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(fabric, rank, test.scenario);
      } catch (const RankDied&) {
        return;
      } catch (const std::exception& error) {
        failures[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < test.num_ranks; ++rank) {
    EXPECT_EQ(failures[static_cast<size_t>(rank)], "") << "rank " << rank;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Scenario& scenario : all_scenarios()) {
    for (const int num_ranks : {1, 2, 3, 5, 7}) {
      if (num_ranks >= scenario.min_ranks) all.push_back({scenario, num_ranks});
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.scenario.name + "On" + std::to_string(info.param.num_ranks);
}

INSTANTIATE_TEST_SUITE_P(Suite, LocalTransportTest, testing::ValuesIn(cases()), case_name);

TEST(LocalFabricTest, EndpointIsMadeOnce) {
  LocalFabric fabric(2);
  const auto first = fabric.endpoint(1);
  EXPECT_THROW(fabric.endpoint(1), Error);
}

TEST(LocalFabricTest, EndpointOutlivesTheFabric) {
  auto fabric = std::make_unique<LocalFabric>(1);
  const auto transport = fabric->endpoint(0);
  fabric.reset();
  EXPECT_EQ(transport->size(), 1);
  EXPECT_EQ(transport->name(), "local");
}

TEST(LocalFabricTest, KilledRankCannotSend) {
  LocalFabric fabric(2);
  const auto transport = fabric.endpoint(1);
  fabric.kill(1);
  const SendOp send{0, Channel::kRows, nullptr, 0};
  EXPECT_THROW(transport->post({{&send, 1}, {}}, nullptr), Error);
}

}  // namespace
}  // namespace colibri
