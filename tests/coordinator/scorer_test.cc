#include "coordinator/scorer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "coordinator/engine.h"
#include "tests/coordinator/forward_rig.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

using Ids = std::vector<int32_t>;

TEST(LogProbabilityTest, IsTheLogitMinusTheLogOfTheSumOfExponentials) {
  const std::vector<float> logits = {0, 1, 2};
  const double sum = 1 + std::exp(1.0) + std::exp(2.0);
  EXPECT_DOUBLE_EQ(log_probability(logits, 0), -std::log(sum));
  EXPECT_NEAR(log_probability(logits, 2), 2 - std::log(sum), 1e-15);
}

TEST(LogProbabilityTest, LargeLogitsDoNotOverflow) {
  EXPECT_DOUBLE_EQ(log_probability(std::vector<float>{3e38f, 3e38f}, 1), -std::log(2.0));
}

TEST(LogProbabilityTest, LogitsThatAreNotFiniteAreAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_ERROR(log_probability(std::vector<float>{0, nan}, 0), kInput, "not finite");
  EXPECT_ERROR(log_probability(std::vector<float>{nan, 0}, 1), kInput, "not finite");
  EXPECT_ERROR(log_probability(std::vector<float>{0, INFINITY}, 0), kInput, "not finite");
}

TEST(TokenScoreTest, MostLikelyComeFirstAndEqualOnesById) {
  const TokenScore score = score_token(std::vector<float>{1, 3, 0, 3, 2}, 2, 4);
  EXPECT_EQ(score.id, 2);
  const double sum = 2 * std::exp(3.0) + std::exp(2.0) + std::exp(1.0) + 1;
  EXPECT_DOUBLE_EQ(score.logprob, -std::log(sum));
  std::vector<int32_t> ids;
  for (const auto& [id, logprob] : score.top) ids.push_back(id);
  EXPECT_EQ(ids, (Ids{1, 3, 4, 0}));
  EXPECT_DOUBLE_EQ(score.top[2].second, 2 - std::log(sum));
  EXPECT_EQ(score_token(std::vector<float>{1, 2}, 0, 20).top.size(), 2u);
  EXPECT_TRUE(score_token(std::vector<float>{1, 2}, 0, 0).top.empty());
}

TEST(ClosedSetTest, SharesAreNormalisedOverTheSet) {
  const ClosedSet set = closed_set(std::vector<double>{-1000, -1000 + std::log(3.0)});
  EXPECT_NEAR(set.probabilities[0], 0.25, 1e-12);
  EXPECT_NEAR(set.probabilities[1], 0.75, 1e-12);
  EXPECT_EQ(set.best, 1u);
  const double entropy = 0.25 * std::log(4.0) + 0.75 * std::log(4.0 / 3);
  EXPECT_NEAR(set.entropy, entropy, 1e-12);
  EXPECT_NEAR(set.normalised_entropy, entropy / std::log(2.0), 1e-12);
  EXPECT_EQ(closed_set(std::vector<double>{-7}).normalised_entropy, 0);
}

// The tiny model on one rank: V = 10, four pages of 64 positions.
class ScorerTest : public testing::Test {
 protected:
  ScorerTest() : rig_(128) {}

  Scorer scorer(int64_t chunk = 128) {
    return Scorer(rig_.forward, rig_.cache, {.vocab_size = 10, .max_context = 100, .chunk = chunk});
  }

  // Different tokens of the vocabulary, many of them.
  static Ids text(size_t count, int32_t seed = 1) {
    Ids ids;
    for (size_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<int32_t>((i * 7 + static_cast<size_t>(seed) * 3 + i / 5) % 10));
    }
    return ids;
  }

  // log p of the last `count` ids, the whole read anew.
  std::vector<double> reread(const Ids& ids, size_t count) {
    std::vector<double> all;
    scorer().score_text(ids, [&](double log_p) { all.push_back(log_p); });
    return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
  }

  // By a scorer with room for long continuations.
  std::vector<std::vector<double>> scored(const Ids& document,
                                          const std::vector<Ids>& continuations) {
    Scorer one(rig_.forward, rig_.cache, {.vocab_size = 10, .max_context = 200, .chunk = 128});
    one.read_document(document);
    std::vector<std::vector<double>> all;
    for (const Ids& ids : continuations) all.push_back(one.score(ids));
    return all;
  }

  ForwardRig rig_;
};

Ids operator+(Ids first, const Ids& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST_F(ScorerTest, ContinuationScoresAreThoseOfReadingAllAnewBitForBit) {
  const Ids document = text(61), continuation = text(9, 4);  // over the edge of a page
  Scorer s = scorer();
  s.read_document(document);
  const auto scores = s.score(continuation);
  EXPECT_EQ(scores, reread(document + continuation, 9));
}

TEST_F(ScorerTest, OrderOfContinuationsChangesNothing) {
  const Ids first = text(20, 2), second = text(5, 3), third = {4};
  Scorer s = scorer();
  s.read_document(text(50));
  const auto a = s.score(first), b = s.score(second), c = s.score(third);
  EXPECT_EQ(s.score(third), c);
  EXPECT_EQ(s.score(second), b);
  EXPECT_EQ(s.score(first), a);
}

TEST_F(ScorerTest, ChunkChangesNothing) {
  const Ids document = text(70), continuation = text(8, 5);
  std::vector<std::vector<double>> scores;
  for (const int64_t chunk : {1, 3, 64, 128}) {
    Scorer s = scorer(chunk);
    s.read_document(document);
    scores.push_back(s.score(continuation));
  }
  for (const auto& other : scores) EXPECT_EQ(other, scores.front());
}

TEST_F(ScorerTest, ProbabilitiesOfAllOneTokenContinuationsAddUpToOne) {
  Scorer s = scorer();
  s.read_document(text(7));
  double sum = 0;
  for (int32_t id = 0; id < 10; ++id) sum += std::exp(s.score(Ids{id}).front());
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST_F(ScorerTest, TextScoresLeaveOutTheFirstTokenAndMatchShorterTexts) {
  const Ids whole = text(30);
  const auto all = reread(whole, 29);
  const auto head = reread(text(12), 11);
  EXPECT_EQ(head, std::vector<double>(all.begin(), all.begin() + 11));
}

TEST_F(ScorerTest, PagesAreGivenBack) {
  {
    Scorer s = scorer();
    s.read_document(text(70));
    EXPECT_EQ(rig_.cache.num_free_pages(), 2);
    s.read_document(text(3));
    EXPECT_EQ(rig_.cache.num_free_pages(), 3);
  }
  EXPECT_EQ(rig_.cache.num_free_pages(), 4);
}

TEST_F(ScorerTest, WhatCannotBeScoredIsNamed) {
  Scorer s = scorer();
  const auto ignore = [](double) {};
  EXPECT_ERROR(s.read_document({}), kInput, "the document is empty");
  EXPECT_ERROR(s.read_document(text(101)), kInput,
               "the document ends at token 101, want at most 100");
  EXPECT_ERROR(s.read_document(Ids{1, 10}), kInput, "token id 10 outside the vocabulary");
  EXPECT_ERROR(s.score_text(Ids{1}, ignore), kInput, "at least two");
  s.read_document(text(98));
  EXPECT_ERROR(s.score({}), kInput, "the continuation is empty");
  EXPECT_ERROR(s.score(text(3)), kInput, "the continuation ends at token 101");
  EXPECT_ERROR(s.score(Ids{-1}), kInput, "token id -1");
  EXPECT_EQ(s.score(text(2)).size(), 2u);
}

using Logprobs = std::vector<std::vector<double>>;

Logprobs scored_by(Engine& engine, const Ids& document, const std::vector<Ids>& continuations) {
  Logprobs got;
  Request request;
  request.prompt_ids = document;
  request.continuations = continuations;
  request.on_continuations = [&](std::span<const std::vector<double>> logprobs) {
    got.assign(logprobs.begin(), logprobs.end());
  };
  engine.add(std::move(request));
  while (engine.step()) {
  }
  return got;
}

// Over a page of 64 at its end, so that continuations begin within one and go on in the next.
TEST_F(ScorerTest, EngineScoresContinuationsWithTheSameBitsAndReadsTheDocumentOnce) {
  const Ids document = text(75);
  const std::vector<Ids> continuations = {text(20, 2), {7}, text(70, 3), text(2, 5), {4}};
  Ids longer = document;
  longer.insert(longer.end(), continuations[2].begin(), continuations[2].end());
  const auto want = scored(document, continuations), want_longer = scored(longer, {{7, 7}});
  Engine engine(rig_.forward, rig_.cache, 10,
                {.limits = {.max_tokens = 128, .chunk = 50, .max_scored = 9},
                 .max_context = 200,
                 .prefix_salt = 3});
  for (const int64_t num_read : {75, 11}) {  // the second time its page is there
    const int64_t before = engine.totals().num_prompt_tokens;
    EXPECT_EQ(scored_by(engine, document, continuations), want);
    EXPECT_EQ(engine.totals().num_prompt_tokens - before, num_read);
  }
  // Pages behind the document were written over, so nobody else may read them.
  const int64_t before = engine.totals().num_prompt_tokens;
  EXPECT_EQ(scored_by(engine, longer, {{7, 7}}), want_longer);
  EXPECT_EQ(engine.totals().num_prompt_tokens - before, 145 - 64);
  EXPECT_EQ(engine.state().num_idle_pages, engine.state().num_pages);
}

TEST_F(ScorerTest, WrongContinuationsAreNamed) {
  Engine engine(rig_.forward, rig_.cache, 10, {.limits = {}, .max_context = 20});
  const auto add = [&](const Ids& ids) {
    Request request;
    request.prompt_ids = {1, 2};
    request.continuations = {{1}, ids};
    engine.add(std::move(request));
  };
  EXPECT_ERROR(add({}), kInput, "continuation is empty");
  EXPECT_ERROR(add({10}), kInput, "continuation id 10");
  EXPECT_ERROR(add(Ids(19, 1)), kInput, "21 tokens, want at most 20");
}

}  // namespace
}  // namespace colibri
