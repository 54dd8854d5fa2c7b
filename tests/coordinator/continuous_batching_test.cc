#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "base/error.h"
#include "coordinator/engine.h"
#include "tests/coordinator/forward_rig.h"

namespace colibri {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kStepTokens = 48;
constexpr int64_t kContext = 256;  // four pages
constexpr int32_t kPages = 14;

// What a request got: every row of logits, one after the other, and its tokens.
struct Got {
  std::vector<float> logits;
  std::vector<double> logprobs;
  Ids ids;
  FinishReason reason = FinishReason::kNone;
  int num_ends = 0;
};

bool begins_with(const std::vector<float>& whole, const std::vector<float>& part) {
  if (part.empty()) return true;
  return part.size() <= whole.size() &&
         std::memcmp(whole.data(), part.data(), part.size() * sizeof(float)) == 0;
}

// A text to go on with. Some begin alike, some want the logits of their prompt.
struct Text {
  Ids prompt;
  int64_t max_tokens = 0;
  bool score_prompt = false;
  SamplingParams sampling = {};
  LogitRuleParams rules = {};
  std::vector<Ids> continuations = {};

  Request request(Got& got) const {
    Request made;
    made.prompt_ids = prompt;
    made.max_tokens = max_tokens;
    made.score_prompt = score_prompt;
    made.sampling = sampling;
    made.logit_rules = rules;
    made.continuations = continuations;
    made.on_continuations = [&got](std::span<const std::vector<double>> all) {
      for (const auto& one : all) got.logprobs.insert(got.logprobs.end(), one.begin(), one.end());
    };
    made.num_top_scores = 3;
    made.on_score = [&got](const TokenScore& score) {
      got.logprobs.push_back(score.logprob);
      got.logprobs.push_back(score.top[2].second);
    };
    made.on_logits = [&got](std::span<const float> row) {
      got.logits.insert(got.logits.end(), row.begin(), row.end());
    };
    made.on_token = [&got](int32_t id) {
      got.ids.push_back(id);
      return true;
    };
    made.on_end = [&got](FinishReason reason) {
      got.reason = reason;
      ++got.num_ends;
    };
    return made;
  }
};

// Breaks a step off in its last layer when it is told to.
struct StepBreaker : RouteObserver {
  void on_routes(int layer, const Batch&, std::span<const int32_t>,
                 std::span<const float>) override {
    if (layer == 1 && std::exchange(breaks_next, false)) fail(ErrorKind::kRankLost, "broken off");
  }
  bool breaks_next = false;
};

class ContinuousBatchingTest : public testing::Test {
 protected:
  ContinuousBatchingTest() : rig_(kStepTokens, &breaker_, kPages) {}

  EngineOptions options(int max_batch, bool reuses) const {
    EngineOptions made;
    made.limits = {.max_tokens = kStepTokens, .chunk = 32};
    made.max_context = kContext;
    made.max_batch = max_batch;
    made.max_overtakes = 4;
    if (reuses) made.prefix_salt = 9;
    return made;
  }

  std::unique_ptr<Engine> engine(const EngineOptions& options) {
    return std::make_unique<Engine>(rig_.forward, rig_.cache, 10, options);
  }

  static void finish(Engine& e) {
    while (e.step()) {
    }
  }

  Got alone(const Text& text) {
    Got got;
    const auto e = engine(options(1, false));
    e->add(text.request(got));
    finish(*e);
    return got;
  }

  StepBreaker breaker_;
  ForwardRig rig_;
};

Ids random_ids(std::mt19937& random, size_t count) {
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 10);
  return ids;
}

std::vector<Text> random_texts(size_t count) {
  std::mt19937 random(3);
  const Ids common = random_ids(random, 140);
  std::vector<Text> texts(count);
  for (size_t i = 0; i < count; ++i) {
    Text& text = texts[i];
    if (i % 2 == 0) text.prompt.assign(common.begin(), common.begin() + 65 + random() % 75);
    const Ids own = random_ids(random, random() % 60 + 1);
    text.prompt.insert(text.prompt.end(), own.begin(), own.end());
    text.max_tokens = static_cast<int64_t>(random() % 50);
    text.score_prompt = i % 5 == 0;
    if (i % 3 == 0) text.sampling = {.greedy = false, .temperature = 2, .seed = i};
    if (i % 7 == 1) {
      text.max_tokens = 0;
      text.score_prompt = false;
      text.continuations = {random_ids(random, 30), {3}, random_ids(random, 2), Ids(80, 4)};
    }
    if (i % 4 == 0) text.rules = {.frequency_penalty = 0.5, .repetition_penalty = 1.5};
  }
  return texts;
}

// One run of 64 neighbours and more over an engine with too few pages.
struct Crowd {
  Engine& engine;
  const std::vector<Text>& texts;
  std::mt19937 random;
  std::map<int, Got> got = {};      // by request
  std::map<int, size_t> text = {};  // likewise
  int num_cancelled = 0;

  void run(int num_requests) {
    bool is_busy = true;
    while (is_busy || static_cast<int>(got.size()) < num_requests) {
      for (auto joins = random() % 5; joins > 2; --joins) join(num_requests);
      if (random() % 12 == 0 && !got.empty()) {
        num_cancelled += engine.cancel(static_cast<int>(random() % got.size()));
      }
      is_busy = engine.step();
    }
  }

  void join(int num_requests) {
    const auto number = static_cast<int>(got.size());
    if (number == num_requests) return;
    text[number] = random() % texts.size();
    ASSERT_EQ(engine.add(texts[text[number]].request(got[number])), number);
  }
};

TEST_F(ContinuousBatchingTest, LogitsAreThoseOfTheRequestAloneWhoeverElseComesAndGoes) {
  const std::vector<Text> texts = random_texts(40);
  std::vector<Got> want;
  for (const Text& text : texts) want.push_back(alone(text));
  for (const bool reuses : {false, true}) {
    int64_t num_preemptions = 0, num_hits = 0;
    int num_cancelled = 0;
    for (const unsigned seed : {1u, 2u, 3u, 4u}) {
      const auto e = engine(options(16, reuses));
      Crowd crowd{.engine = *e, .texts = texts, .random = std::mt19937(seed)};
      crowd.run(65);
      for (const auto& [number, got] : crowd.got) {
        const Got& expected = want[crowd.text[number]];
        EXPECT_TRUE(begins_with(expected.logits, got.logits)) << number << " of seed " << seed;
        EXPECT_EQ(got.num_ends, 1);
        if (got.reason == FinishReason::kCancelled) continue;
        EXPECT_EQ(got.logits.size(), expected.logits.size());
        EXPECT_EQ(got.logprobs, expected.logprobs);
        EXPECT_EQ(got.ids, expected.ids);
      }
      num_preemptions += e->state().num_preemptions;
      num_hits += e->state().prefixes.num_hit_tokens;
      num_cancelled += crowd.num_cancelled;
      EXPECT_EQ(e->state().num_idle_pages, kPages);
    }
    EXPECT_GT(num_preemptions, 10);
    EXPECT_GT(num_cancelled, 10);
    EXPECT_EQ(num_hits > 0, reuses);
  }
}

TEST_F(ContinuousBatchingTest, TextsOfTheCrowdDifferInTheirLogits) {
  const std::vector<Text> texts = random_texts(4);
  EXPECT_FALSE(begins_with(alone(texts[0]).logits, alone(texts[2]).logits));
  Text changed = texts[0];
  changed.prompt[0] = (changed.prompt[0] + 1) % 10;
  EXPECT_FALSE(begins_with(alone(texts[0]).logits, alone(changed).logits));
  changed = texts[0];
  changed.rules = {};
  EXPECT_NE(alone(texts[0]).ids, alone(changed).ids);
}

TEST_F(ContinuousBatchingTest, PrefixIsComputedOnceAndAgainAfterEviction) {
  std::mt19937 random(1);
  const Text text{.prompt = random_ids(random, 130), .max_tokens = 3};
  const Got want = alone(text);
  const auto e = engine(options(1, true));
  const auto tokens_for = [&](const Text& asked) {
    const int64_t before = e->totals().num_prompt_tokens;
    Got got;
    e->add(asked.request(got));
    finish(*e);
    if (asked.prompt == text.prompt) {
      EXPECT_EQ(got.logits, want.logits);
    }
    return e->totals().num_prompt_tokens - before;
  };
  EXPECT_EQ(tokens_for(text), 130);
  EXPECT_EQ(tokens_for(text), 2);
  for (int i = 0; i < kPages; ++i) tokens_for({.prompt = random_ids(random, 70), .max_tokens = 1});
  EXPECT_EQ(tokens_for(text), 130);
  EXPECT_EQ(e->state().prefixes.num_hit_tokens, 128);
}

TEST_F(ContinuousBatchingTest, AnswerIsPartOfTheNextPromptsPrefix) {
  std::mt19937 random(1);
  Text text{.prompt = random_ids(random, 50), .max_tokens = 20};
  const auto e = engine(options(1, true));
  Got first, second;
  e->add(text.request(first));
  finish(*e);
  text.prompt.insert(text.prompt.end(), first.ids.begin(), first.ids.end());
  e->add(text.request(second));
  finish(*e);
  EXPECT_EQ(e->state().prefixes.num_hit_tokens, 64);
  EXPECT_EQ(second.logits, alone(text).logits);
}

TEST_F(ContinuousBatchingTest, RequestsOfOtherSaltsShareNothing) {
  std::mt19937 random(1);
  const Text text{.prompt = random_ids(random, 130), .max_tokens = 1};
  const auto e = engine(options(1, true));
  Got got[3];
  for (int i = 0; i < 3; ++i) {
    Request request = text.request(got[i]);
    request.cache_salt = i == 1 ? "bob" : "alice";
    e->add(std::move(request));
    finish(*e);
    EXPECT_EQ(e->state().prefixes.num_hit_tokens, i == 2 ? 128 : 0);
  }
}

TEST_F(ContinuousBatchingTest, CancelInEveryStateFreesThePages) {
  std::mt19937 random(1);
  const auto e = engine(options(2, false));
  Got decoding, in_prompt, waiting;
  e->add(Text{.prompt = {1}, .max_tokens = 50}.request(decoding));
  const int second = e->add(Text{.prompt = random_ids(random, 200)}.request(in_prompt));
  const int third = e->add(Text{.prompt = {1}, .max_tokens = 1}.request(waiting));
  for (int i = 0; i < 3; ++i) e->step();
  EXPECT_EQ(rig_.cache.num_free_pages(), kPages - 3);  // 3 and 96 positions
  EXPECT_TRUE(e->cancel(third));
  EXPECT_TRUE(e->cancel(second));
  EXPECT_FALSE(e->cancel(second));
  EXPECT_EQ(in_prompt.reason, FinishReason::kCancelled);
  EXPECT_TRUE(waiting.ids.empty());
  EXPECT_EQ(rig_.cache.num_free_pages(), kPages - 1);
  EXPECT_TRUE(e->cancel(0));
  EXPECT_EQ(rig_.cache.num_free_pages(), kPages);
  EXPECT_FALSE(e->step());
}

TEST_F(ContinuousBatchingTest, CallbacksMayCancelAndAdd) {
  const auto e = engine(options(2, false));
  Got first, second, third;
  Request killer = Text{.prompt = {1}, .max_tokens = 5}.request(first);
  killer.on_token = [&](int32_t) { return e->cancel(1); };  // false from the second time on
  killer.on_end = [&](FinishReason) {
    e->add(Text{.prompt = {2}, .max_tokens = 2}.request(third));
  };
  e->add(std::move(killer));
  e->add(Text{.prompt = {1}, .max_tokens = 5}.request(second));
  finish(*e);
  EXPECT_EQ(second.reason, FinishReason::kCancelled);
  EXPECT_TRUE(second.ids.empty());  // cancelled before its token of the same step
  EXPECT_EQ(third.ids.size(), 2u);
  EXPECT_EQ(rig_.cache.num_free_pages(), kPages);
}

TEST_F(ContinuousBatchingTest, StepThatBrokeOffRunsAgainWithTheSameBits) {
  const std::vector<Text> texts = random_texts(6);
  const auto e = engine(options(4, true));
  std::vector<Got> got(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) e->add(texts[i].request(got[i]));
  int num_tries = 0;
  for (bool is_busy = true; is_busy;) {
    breaker_.breaks_next = ++num_tries % 3 == 0;
    try {
      is_busy = e->step();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRankLost);
    }
  }
  breaker_.breaks_next = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(got[i].logits, alone(texts[i]).logits);
    EXPECT_EQ(got[i].reason, FinishReason::kLength);
  }
}

TEST_F(ContinuousBatchingTest, PagesAreFlatAfterThousandsOfRequests) {
  std::mt19937 random(1);
  const auto e = engine(options(16, true));
  constexpr int kRequests = 3000;
  std::vector<Got> got(kRequests);
  const Ids common = random_ids(random, 130);
  for (int i = 0; i < kRequests; ++i) {
    Text text{.prompt = Ids(common.begin(), common.begin() + 60 + random() % 70)};
    text.prompt.push_back(static_cast<int32_t>(random() % 10));
    text.max_tokens = static_cast<int64_t>(random() % 3);
    e->add(text.request(got[static_cast<size_t>(i)]));
    if (i % 7 == 0) e->cancel(i - static_cast<int>(random() % 5));
    if (e->state().num_waiting > 20) e->step();
  }
  finish(*e);
  for (const Got& one : got) EXPECT_EQ(one.num_ends, 1);
  EXPECT_EQ(e->state().num_idle_pages, kPages);
  e->forget_prefixes();
  EXPECT_EQ(rig_.cache.num_free_pages(), kPages);
}

}  // namespace
}  // namespace colibri
