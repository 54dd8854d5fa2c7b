#include "coordinator/prefix_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace colibri {
namespace {

using Pages = std::vector<int32_t>;
using Ids = std::vector<int32_t>;

uint64_t same_hash_for_all(uint64_t, std::span<const int32_t>) { return 7; }

// Blocks of two tokens.
class PrefixCacheTest : public testing::Test {
 protected:
  explicit PrefixCacheTest(PrefixCache::Hash hash = PrefixCache::hash_of) : cache_(2, 5, hash) {}

  // Publishes the full blocks of `ids` as one who computed them on `pages`.
  Pages publish(const Ids& ids, Pages pages, const std::string& salt = "") {
    for (size_t i = 0; i < pages.size(); ++i) {
      pages[i] = cache_.publish({.tokens = std::span(ids).subspan(2 * i, 2),
                                 .salt = salt,
                                 .before = i == 0 ? -1 : pages[i - 1],
                                 .page = pages[i]});
    }
    return pages;
  }

  Pages acquire(const Ids& ids, const std::string& salt = "") {
    Pages pages;
    cache_.acquire(ids, salt, pages);
    return pages;
  }

  // Looks without holding.
  Pages find(const Ids& ids, const std::string& salt = "") {
    const Pages pages = acquire(ids, salt);
    cache_.release(pages);
    return pages;
  }

  PrefixCache cache_;
};

class CollidingPrefixCacheTest : public PrefixCacheTest {
 protected:
  CollidingPrefixCacheTest() : PrefixCacheTest(same_hash_for_all) {}
};

TEST_F(PrefixCacheTest, LongestKnownChainOfFullBlocksIsFound) {
  publish({1, 2, 3, 4}, {10, 11});
  const struct {
    Ids ids;
    Pages pages;
  } cases[] = {
      {{}, {}},
      {{1}, {}},
      {{1, 2}, {10}},
      {{1, 2, 3}, {10}},
      {{1, 2, 3, 4}, {10, 11}},
      {{1, 2, 3, 4, 5, 6}, {10, 11}},
      {{1, 2, 3, 5}, {10}},
      {{3, 4}, {}},        // known after 1 2 only
      {{3, 4, 1, 2}, {}},  // other order
      {{2, 1, 3, 4}, {}},
  };
  for (const auto& c : cases) EXPECT_EQ(find(c.ids), c.pages) << testing::PrintToString(c.ids);
}

TEST_F(PrefixCacheTest, TextsOfAnotherSaltAreNotFound) {
  publish({1, 2, 3, 4}, {10, 11}, "alice");
  EXPECT_EQ(find({1, 2, 3, 4}, "alice"), (Pages{10, 11}));
  EXPECT_EQ(find({1, 2, 3, 4}, "bob"), Pages{});
  EXPECT_EQ(find({1, 2, 3, 4}), Pages{});
}

TEST_F(PrefixCacheTest, BlockComputedTwiceStaysOnThePageOfTheFirst) {
  publish({1, 2, 3, 4}, {10, 11});
  EXPECT_EQ(publish({1, 2, 3, 4, 5, 6}, {20, 21, 22}), (Pages{10, 11, 22}));
  EXPECT_EQ(find({1, 2, 3, 4, 5, 6}), (Pages{10, 11, 22}));
  EXPECT_EQ(cache_.num_known(), 3);
}

TEST_F(PrefixCacheTest, HeldBlocksAreNeverEvicted) {
  const Pages held = publish({1, 2, 3, 4}, {10, 11});
  EXPECT_EQ(cache_.evict(), -1);
  acquire({1, 2});
  cache_.release(held);
  EXPECT_EQ(cache_.num_idle(), 1);
  EXPECT_EQ(cache_.evict(), 11);
  EXPECT_EQ(cache_.evict(), -1);
  EXPECT_EQ(find({1, 2, 3, 4}), (Pages{10}));
}

TEST_F(PrefixCacheTest, BlockReleasedLongestAgoGoesFirstAndAChainFromItsEnd) {
  cache_.release(publish({1, 2, 3, 4}, {10, 11}));
  cache_.release(publish({5, 6}, {12}));
  cache_.release(publish({7, 8}, {13}));
  EXPECT_EQ(find({5, 6}), Pages{12});  // used again: last now
  Pages evicted;
  while (cache_.num_idle() > 0) evicted.push_back(cache_.evict());
  EXPECT_EQ(evicted, (Pages{11, 10, 13, 12}));
  EXPECT_EQ(cache_.num_known(), 0);
}

TEST_F(PrefixCacheTest, BlockIsHeldAsOftenAsItWasTaken) {
  const Pages pages = publish({1, 2}, {10});
  acquire({1, 2});
  cache_.release(pages);
  EXPECT_EQ(cache_.num_idle(), 0);
  cache_.release(pages);
  EXPECT_EQ(cache_.num_idle(), 1);
  EXPECT_THROW(cache_.release(pages), Error);
}

TEST_F(PrefixCacheTest, EvictedBlockIsForgottenAndItsPageMayHoldAnother) {
  cache_.release(publish({1, 2}, {10}));
  EXPECT_EQ(cache_.evict(), 10);
  publish({3, 4}, {10});
  EXPECT_EQ(find({1, 2}), Pages{});
  EXPECT_EQ(find({3, 4}), Pages{10});
}

TEST_F(PrefixCacheTest, HashesDifferByTheEnginesSalt) {
  // Seen through what the hash is given: the salt's digest comes before a first block.
  static uint64_t seen = 0;
  const PrefixCache::Hash spy = [](uint64_t before, std::span<const int32_t>) {
    return seen = before;
  };
  const auto before_first_block = [&](uint64_t salt) {
    PrefixCache cache(2, salt, spy);
    const Ids ids = {1, 2};
    Pages pages;
    cache.acquire(ids, "", pages);
    return seen;
  };
  EXPECT_EQ(before_first_block(1), before_first_block(1));
  EXPECT_NE(before_first_block(1), before_first_block(2));
}

TEST_F(CollidingPrefixCacheTest, EqualHashesOfOtherTokensAreNoHit) {
  publish({1, 2, 3, 4}, {10, 11});
  publish({5, 6, 3, 4}, {12, 13});
  publish({1, 2}, {14}, "alice");
  EXPECT_EQ(find({1, 2, 3, 4}), (Pages{10, 11}));
  EXPECT_EQ(find({5, 6, 3, 4}), (Pages{12, 13}));
  EXPECT_EQ(find({1, 2, 5, 6}), (Pages{10}));
  EXPECT_EQ(find({7, 8}), Pages{});
  EXPECT_EQ(find({1, 2}, "alice"), Pages{14});
  EXPECT_EQ(find({1, 2}, "bob"), Pages{});
}

TEST_F(CollidingPrefixCacheTest, EvictionForgetsThatBlockOnly) {
  cache_.release(publish({1, 2}, {10}));
  cache_.release(publish({3, 4}, {11}));
  EXPECT_EQ(cache_.evict(), 10);
  EXPECT_EQ(find({3, 4}), Pages{11});
}

}  // namespace
}  // namespace colibri
