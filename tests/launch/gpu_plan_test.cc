// How ranks, as threads, come to one number of slots each.
#include "launch/gpu_plan.h"

#include <gtest/gtest.h>

#include <array>

#include "launch/local_ranks.h"

namespace colibri {
namespace {

constexpr int kRanks = 3;
using Decide = std::function<std::vector<int64_t>(std::span<const GpuMemory>)>;

// What each rank hears: slots as text, or its error's.
std::array<std::string, kRanks> heard(const Decide& decide) {
  std::array<std::string, kRanks> said;
  run_local_ranks({}, kRanks, [&](RankContext& context) {
    std::string& mine = said[static_cast<size_t>(context.rank)];
    const GpuMemory memory{.free_bytes = 10 * context.rank, .total_bytes = 100};
    try {
      for (const int64_t slots : agree_on_capacities(context, memory, 10000, decide)) {
        mine += std::to_string(slots) + " ";
      }
    } catch (const AgreedError& error) {
      mine = std::to_string(exit_code(error.kind())) + ": " + error.what();
    }
    return 0;
  });
  return said;
}

TEST(AgreedCapacitiesTest, RankZeroDecidesOverEveryRanksMemoryAndAllHear) {
  const auto said = heard([](std::span<const GpuMemory> memory) {
    std::vector<int64_t> slots;
    for (const GpuMemory& one : memory) slots.push_back(one.free_bytes + one.total_bytes);
    return slots;
  });
  for (const std::string& one : said) EXPECT_EQ(one, "100 110 120 ");
}

TEST(AgreedCapacitiesTest, ItsErrorIsEveryRanks) {
  const auto said = heard([](std::span<const GpuMemory>) -> std::vector<int64_t> {
    throw Error(ErrorKind::kEnvironment, "no room");
  });
  for (const std::string& one : said) EXPECT_EQ(one, "3: no room");
}

}  // namespace
}  // namespace colibri
