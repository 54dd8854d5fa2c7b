#include "coordinator/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "tests/coordinator/page_counter.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

using Parts = std::vector<std::pair<int, int64_t>>;  // number of the sequence, tokens

// A scheduler and requests that are numbers of tokens. Pages are of 64 positions.
class Desk {
 public:
  Desk(int32_t num_pages, const SchedulerLimits& limits, std::optional<uint64_t> prefix_salt = {})
      : source_(num_pages), pages_(source_, prefix_salt), scheduler_(pages_, limits) {}

  // Of the next number.
  void add(int64_t num_prompt, bool is_scored = false) {
    auto made = std::make_unique<Sequence>();
    made->is_scored = is_scored;
    made->number = static_cast<int32_t>(sequences_.size());
    made->ids.assign(static_cast<size_t>(num_prompt), 1);
    scheduler_.add(*made);
    sequences_.push_back(std::move(made));
  }

  Parts plan() {
    parts_ = scheduler_.plan();
    Parts flat;
    for (const StepPart& part : parts_) flat.emplace_back(part.sequence->number, part.count);
    return flat;
  }

  // Plans a step and runs it: whose last token ran has one more.
  Parts step() {
    Parts flat = plan();
    for (const StepPart& part : parts_) {
      scheduler_.advance(part);
      if (part.sequence->num_to_run() == 0) part.sequence->ids.push_back(1);
    }
    return flat;
  }

  void remove(int number) { scheduler_.remove(at(number)); }
  Sequence& at(int number) { return *sequences_.at(static_cast<size_t>(number)); }
  int32_t num_free() const { return source_.num_free_pages(); }
  const Scheduler& scheduler() const { return scheduler_; }
  const PrefixStats& prefix_stats() const { return pages_.prefix_stats(); }

 private:
  PageCounter source_;
  SequencePages pages_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::span<const StepPart> parts_;
};

SchedulerLimits limits(int64_t max_tokens, int64_t chunk, int max_running) {
  return {.step = {.max_tokens = max_tokens, .chunk = chunk}, .max_running = max_running};
}

TEST(SchedulerTest, PromptIsCutIntoChunks) {
  Desk desk(4, limits(64, 7, 1));
  desk.add(10);
  EXPECT_EQ(desk.step(), (Parts{{0, 7}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 3}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 1}}));
}

TEST(SchedulerTest, DecodingGoesBeforePromptsWhoeverCameFirst) {
  Desk desk(4, limits(10, 64, 2));
  desk.add(30);
  desk.add(2);
  EXPECT_EQ(desk.step(), (Parts{{0, 10}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 10}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 10}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 1}, {1, 2}}));
  desk.add(30);
  desk.remove(0);
  EXPECT_EQ(desk.step(), (Parts{{1, 1}, {2, 9}}));
}

TEST(SchedulerTest, FullStepLeavesTheRestForLater) {
  Desk desk(4, limits(2, 64, 3));
  for (int i = 0; i < 3; ++i) desk.add(1);
  EXPECT_EQ(desk.plan(), (Parts{{0, 1}, {1, 1}}));
}

TEST(SchedulerTest, ScoredTokensOfAStepAreBounded) {
  SchedulerLimits few = limits(64, 32, 4);
  few.step.max_scored = 10;
  Desk desk(8, few);
  desk.add(8, true);
  desk.add(8, true);
  desk.add(40);
  desk.add(8, true);
  EXPECT_EQ(desk.step(), (Parts{{0, 8}, {1, 2}, {2, 32}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 1}, {1, 6}, {2, 8}, {3, 3}}));
}

TEST(SchedulerTest, NoSequenceIsAnEmptyStep) {
  Desk desk(1, limits(8, 8, 1));
  EXPECT_TRUE(desk.plan().empty());
}

TEST(SchedulerTest, RequestsJoinAsSoonAsOthersLeave) {
  Desk desk(4, limits(8, 8, 2));
  for (int i = 0; i < 3; ++i) desk.add(1);
  EXPECT_EQ(desk.step(), (Parts{{0, 1}, {1, 1}}));
  desk.remove(0);
  EXPECT_EQ(desk.step(), (Parts{{1, 1}, {2, 1}}));
}

TEST(SchedulerTest, StepThatDidNotRunIsPlannedAgain) {
  Desk desk(4, limits(8, 3, 2));
  desk.add(5);
  desk.add(2);
  const Parts first = desk.plan();
  EXPECT_EQ(first, (Parts{{0, 3}, {1, 2}}));
  EXPECT_EQ(desk.plan(), first);
}

TEST(SchedulerTest, PromptWaitsUntilItsPagesAreThere) {
  Desk desk(3, limits(1000, 1000, 4));
  desk.add(128);
  desk.add(65);  // two pages, one is left
  EXPECT_EQ(desk.step(), (Parts{{0, 128}}));
  EXPECT_EQ(desk.scheduler().num_waiting(), 1);
  desk.remove(0);
  EXPECT_EQ(desk.step(), (Parts{{1, 65}}));
}

TEST(SchedulerTest, PagesThatARunningPromptWillTakeAreSpokenFor) {
  Desk desk(3, limits(70, 64, 4));
  desk.add(128);
  desk.add(65);                              // two pages are free still
  EXPECT_EQ(desk.step(), (Parts{{0, 64}}));  // holds one page, will hold two
  EXPECT_EQ(desk.step(), (Parts{{0, 64}}));
  EXPECT_EQ(desk.num_free(), 1);
}

TEST(SchedulerTest, WatermarkStaysFreeForThoseThatRun) {
  for (const int64_t watermark : {1, 2}) {
    SchedulerLimits with_mark = limits(1000, 1000, 4);
    with_mark.watermark_pages = watermark;
    Desk desk(3, with_mark);
    desk.add(64);
    desk.add(64);
    desk.step();
    EXPECT_EQ(desk.scheduler().num_running(), watermark == 1 ? 2 : 1);
  }
}

TEST(SchedulerTest, WatermarkDoesNotHoldBackTheOnlyOne) {
  SchedulerLimits with_mark = limits(1000, 1000, 4);
  with_mark.watermark_pages = 9;
  Desk desk(2, with_mark);
  desk.add(128);
  EXPECT_EQ(desk.step(), (Parts{{0, 128}}));
}

TEST(SchedulerTest, YoungestGoesWhenPagesRunOutAndComesBackFirst) {
  Desk desk(2, limits(1000, 1000, 2));
  desk.add(64);
  desk.add(10);
  desk.add(1);
  EXPECT_EQ(desk.step(), (Parts{{0, 64}, {1, 10}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 1}}));  // its 65th position takes the page of 1
  EXPECT_EQ(desk.scheduler().num_preemptions(), 1);
  EXPECT_TRUE(desk.at(1).pages.empty());
  EXPECT_EQ(desk.at(1).num_cached, 0);
  EXPECT_EQ(desk.at(1).num_known(), 11);  // with the token it had
  desk.remove(0);
  EXPECT_EQ(desk.step(), (Parts{{1, 11}, {2, 1}}));
}

TEST(SchedulerTest, StatisticsDoNotCountATextAgainThatWasPreempted) {
  Desk desk(2, limits(1000, 1000, 2), 1);
  desk.add(64);
  desk.add(10);
  desk.step();
  desk.step();
  desk.remove(0);
  EXPECT_EQ(desk.step(), (Parts{{1, 11}}));
  EXPECT_EQ(desk.scheduler().num_preemptions(), 1);
  EXPECT_EQ(desk.prefix_stats().num_queried_tokens, 74);
  desk.remove(1);
}

TEST(SchedulerTest, StepThatPreemptsAdmitsNone) {
  Desk desk(4, limits(1000, 1000, 3));
  desk.add(64);
  desk.add(192);
  desk.add(1);
  EXPECT_EQ(desk.step(), (Parts{{0, 64}, {1, 192}}));
  EXPECT_EQ(desk.step(), (Parts{{0, 1}}));  // three pages come back and one is taken
  EXPECT_EQ(desk.step(), (Parts{{0, 1}, {2, 1}}));
}

TEST(SchedulerTest, PartOfAPreemptedSequenceLeavesTheStep) {
  Desk desk(3, limits(64, 40, 3));
  desk.add(30);
  desk.add(10);
  desk.add(10);
  EXPECT_EQ(desk.step(), (Parts{{0, 30}, {1, 10}, {2, 10}}));
  desk.at(0).ids.resize(100, 1);  // prompts again, of which the first takes a second page
  desk.at(1).ids.resize(50, 1);
  EXPECT_EQ(desk.step(), (Parts{{0, 40}, {1, 24}}));  // 2 was to decode; its token is 1's
}

TEST(SchedulerTest, OneAloneWithoutRoomIsAnError) {
  Desk desk(1, limits(100, 100, 1));
  desk.add(65);
  EXPECT_ERROR(desk.plan(), kEnvironment, "1 pages left, want 2");
}

TEST(SchedulerTest, CancelGivesBackThePagesOfEveryState) {
  Desk desk(4, limits(70, 70, 2));
  desk.add(1);    // will decode
  desk.add(150);  // will be in its prompt
  desk.add(5);    // will wait
  desk.step();
  desk.step();
  EXPECT_EQ(desk.num_free(), 0);
  desk.remove(2);
  desk.remove(1);
  EXPECT_EQ(desk.num_free(), 3);
  EXPECT_EQ(desk.step(), (Parts{{0, 1}}));
  desk.remove(0);
  EXPECT_EQ(desk.num_free(), 4);
  EXPECT_TRUE(desk.step().empty());
}

TEST(SchedulerTest, SmallOnesOvertakeALargeOneOnlySoOften) {
  SchedulerLimits bounded = limits(1000, 1000, 9);
  bounded.max_overtakes = 2;
  Desk desk(4, bounded);
  desk.add(100);  // two pages
  desk.step();
  desk.add(200);                            // four
  for (int i = 0; i < 4; ++i) desk.add(1);  // 2, 3, 4, 5: one each
  EXPECT_EQ(desk.step(), (Parts{{0, 1}, {2, 1}, {3, 1}}));
  desk.remove(2);
  EXPECT_EQ(desk.step(), (Parts{{0, 1}, {3, 1}}));  // 4 would fit
  desk.remove(0);
  desk.remove(3);
  EXPECT_EQ(desk.step(), (Parts{{1, 200}}));
}

// 200 requests of random sizes come by and by to a desk with room for about four.
TEST(SchedulerTest, AllEndNobodyIsPassedTooOftenAndTheFirstIsNeverPreempted) {
  SchedulerLimits bounded = limits(100, 64, 6);
  bounded.max_overtakes = 3;
  bounded.watermark_pages = 1;
  std::mt19937 random(1);
  Desk desk(12, bounded);
  std::map<int, size_t> wanted;  // ids at which a request ends
  for (int added = 0; added < 200 || !wanted.empty();) {
    if (added < 200 && random() % 3 == 0) {
      const auto prompt = static_cast<int64_t>(random() % (random() % 4 == 0 ? 600 : 60) + 1);
      desk.add(prompt);
      wanted[added++] = static_cast<size_t>(prompt) + random() % 100 + 1;
    }
    int first = -1;
    for (const auto& [number, ids] : wanted) {
      if (first < 0 && !desk.at(number).pages.empty()) first = number;
    }
    const Parts parts = desk.step();
    EXPECT_EQ(parts.empty(), wanted.empty());
    EXPECT_TRUE(first < 0 || !desk.at(first).pages.empty());
    std::vector<int> ended;
    for (const auto& [number, ids] : wanted) {
      EXPECT_LE(desk.at(number).num_passed, 3);
      if (desk.at(number).ids.size() >= ids) ended.push_back(number);
    }
    for (const int number : ended) {
      desk.remove(number);
      wanted.erase(number);
    }
  }
  EXPECT_EQ(desk.num_free(), 12);
  EXPECT_GT(desk.scheduler().num_preemptions(), 0);
}

}  // namespace
}  // namespace colibri
