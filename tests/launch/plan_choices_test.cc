#include "launch/plan_choices.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/return_capacity.h"
#include "launch/plan_report.h"
#include "tests/topology/machines.h"
#include "topology/cluster_file.h"

namespace colibri {
namespace {

struct Planned {
  ModelShape shape = round_shape();
  std::optional<ExpertLoads> loads;
  RankMap ranks;
  PlanProblem problem;
  ChosenPlan chosen;
  Planned(const std::string& machine, int64_t batch)
      : ranks(ranks_on(find_cluster(machine), 4, find_cluster(machine).name != "two-socket-cpu",
                       "1")),
        problem{.shape = shape, .ranks = ranks, .loads = loads, .capacity_slots = {}},
        chosen((problem.batch = batch, choose_plan(problem, 0))) {}
  Planned(const Planned&) = delete;

  const PlanAdvice* advice(const std::string& what) const {
    const auto at = std::find_if(chosen.advice.begin(), chosen.advice.end(),
                                 [&](const PlanAdvice& each) { return each.what == what; });
    return at != chosen.advice.end() ? &*at : nullptr;
  }
};

void expect_least(const PlanAdvice& advice) {
  const auto best =
      std::min_element(advice.choices.begin(), advice.choices.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_EQ(advice.answer, best->first);
}

// 16 tokens over NVLink are sent sooner than counted; 4096 over PCIe take long for room that the
// ranks do not fill.
TEST(PlanChoicesTest, TheExchangeModeIsTheSimulatorsMinimum) {
  const Planned few("8xh100", 16), many("8xa100-pcie", 4096);
  ASSERT_NE(few.advice("exchange"), nullptr);
  ASSERT_NE(many.advice("exchange"), nullptr);
  expect_least(*few.advice("exchange"));
  expect_least(*many.advice("exchange"));
  EXPECT_EQ(few.advice("exchange")->answer, "fixed size");
  EXPECT_EQ(many.advice("exchange")->answer, "exact counts");
}

TEST(PlanChoicesTest, ThePlansStepIsThatOfTheModeThatTheProgramRunsIn) {
  const Planned few("8xh100", 64), more("8xh100", 65);
  EXPECT_EQ(few.advice("exchange")->choices[1].second, few.chosen.best.step.step_us);
  EXPECT_EQ(more.advice("exchange")->choices[0].second, more.chosen.best.step.step_us);
}

TEST(PlanChoicesTest, ThePlansFileCarriesTheExchangeMode) {
  const Planned few("8xh100", 16);
  EXPECT_NE(plan_notes(few.problem, few.chosen).find(R"({"what":"exchange","answer":"fixed size")"),
            std::string::npos);
}

TEST(PlanChoicesTest, BetweenCpusThereIsNoModeToChoose) {
  EXPECT_EQ(Planned("two-socket-cpu", 16).advice("exchange"), nullptr);
}

// The cost model's room is what the runtime comes to when every step is the same.
TEST(PlanChoicesTest, TheModelsRoomForResultsIsTheRuntimes) {
  constexpr int64_t kTopK = 8;
  for (const int64_t tokens : {3, 5, 16, 64}) {
    for (const int64_t most : {int64_t{1}, tokens, 2 * tokens, 5 * tokens, 8 * tokens}) {
      ReturnCapacity capacity(1, kTopK);
      for (int step = 0; step < ReturnCapacity::kPatience; ++step)
        capacity.observe(0, tokens, most);
      EXPECT_EQ(results_room(static_cast<double>(tokens), kTopK, static_cast<double>(most)),
                capacity.of(0, tokens))
          << tokens << " tokens, " << most;
    }
  }
}

}  // namespace
}  // namespace colibri
