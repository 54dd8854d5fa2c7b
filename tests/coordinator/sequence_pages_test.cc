#include "coordinator/sequence_pages.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/coordinator/page_counter.h"

namespace colibri {
namespace {

using Pages = std::vector<int32_t>;

// `num_ids` equal tokens; pages are of 64 positions.
Sequence text(size_t num_ids, int32_t id = 1) {
  Sequence sequence;
  sequence.ids.assign(num_ids, id);
  sequence.max_reused = std::numeric_limits<int64_t>::max();
  return sequence;
}

// Computes `count` more positions.
void run(SequencePages& pages, Sequence& sequence, int64_t count) {
  ASSERT_TRUE(pages.grow(sequence, sequence.num_cached + count));
  sequence.num_cached += count;
  pages.publish(sequence);
}

TEST(SequencePagesTest, PagesComeWithPositions) {
  PageCounter source(3);
  SequencePages pages(source);
  Sequence a = text(200);
  EXPECT_TRUE(pages.grow(a, 64));
  EXPECT_EQ(a.pages, (Pages{0}));
  EXPECT_TRUE(pages.grow(a, 65));
  EXPECT_EQ(a.pages, (Pages{0, 1}));
  EXPECT_FALSE(pages.grow(a, 193));
  EXPECT_EQ(a.pages, (Pages{0, 1}));
  pages.release(a);
  EXPECT_EQ(source.num_free_pages(), 3);
}

TEST(SequencePagesTest, FullPagesServeALaterTextAndTheLastTokenIsAlwaysComputed) {
  const struct {
    size_t num_ids;
    int64_t num_cached;
  } cases[] = {{1, 0}, {64, 0}, {65, 64}, {128, 64}, {129, 128}, {500, 128}};
  for (const auto& c : cases) {
    PageCounter source(4);
    SequencePages pages(source, 1);
    Sequence first = text(150);
    run(pages, first, 150);
    pages.release(first);
    Sequence second = text(c.num_ids);
    pages.begin(second);
    EXPECT_EQ(second.num_cached, c.num_cached) << c.num_ids;
    pages.release(second);
  }
}

TEST(SequencePagesTest, WithoutPrefixesNothingIsKept) {
  PageCounter source(4);
  SequencePages pages(source);
  Sequence first = text(150);
  run(pages, first, 150);
  pages.release(first);
  EXPECT_EQ(source.num_free_pages(), 4);
  Sequence second = text(150);
  pages.begin(second);
  EXPECT_EQ(second.num_cached, 0);
}

TEST(SequencePagesTest, NoMoreIsReusedThanTheSequenceAllows) {
  PageCounter source(4);
  SequencePages pages(source, 1);
  Sequence first = text(150);
  run(pages, first, 150);
  Sequence second = text(150);
  second.max_reused = 100;
  pages.begin(second);
  EXPECT_EQ(second.pages, (Pages{0}));
  pages.release(second);
  pages.release(first);
}

TEST(SequencePagesTest, PageComputedBySomeoneElseMeanwhileIsSharedAndTheOwnOneIsFree) {
  PageCounter source(4);
  SequencePages pages(source, 1);
  Sequence first = text(70), second = text(70);
  ASSERT_TRUE(pages.grow(first, 64));
  ASSERT_TRUE(pages.grow(second, 64));
  run(pages, first, 64);
  run(pages, second, 64);
  EXPECT_EQ(first.pages, second.pages);
  EXPECT_EQ(source.num_free_pages(), 3);
  pages.release(first);
  EXPECT_EQ(pages.num_available(), 3);  // second holds it still
  pages.release(second);
  EXPECT_EQ(pages.num_available(), 4);
}

TEST(SequencePagesTest, KeptPagesMakeRoomWhenNoneIsFree) {
  PageCounter source(3);
  SequencePages pages(source, 1);
  Sequence first = text(128);
  run(pages, first, 128);
  pages.release(first);
  EXPECT_EQ(source.num_free_pages(), 1);
  Sequence second = text(130, 2);
  run(pages, second, 130);
  EXPECT_EQ(pages.num_available(), 0);
  pages.release(second);
  Sequence again = text(128);
  pages.begin(again);
  EXPECT_EQ(again.num_cached, 0);
}

TEST(SequencePagesTest, ForgottenPrefixesAreFreePages) {
  PageCounter source(3);
  SequencePages pages(source, 1);
  Sequence first = text(128);
  run(pages, first, 128);
  pages.release(first);
  pages.forget_prefixes();
  EXPECT_EQ(source.num_free_pages(), 3);
}

TEST(SequencePagesTest, StatisticsCountTokensLookedUpAndFound) {
  PageCounter source(4);
  SequencePages pages(source, 1);
  Sequence first = text(100), second = text(90);
  for (Sequence* sequence : {&first, &second}) {
    pages.begin(*sequence);
    pages.count(*sequence);
    run(pages, *sequence, sequence->num_to_run());
  }
  EXPECT_EQ(pages.prefix_stats().num_queried_tokens, 190);
  EXPECT_EQ(pages.prefix_stats().num_hit_tokens, 64);
  pages.release(second);
  pages.release(first);
}

}  // namespace
}  // namespace colibri
