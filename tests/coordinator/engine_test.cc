#include "coordinator/engine.h"

#include <gtest/gtest.h>

#include "tests/coordinator/forward_rig.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

// The sequence and position of every token that layer 0 routed.
struct SeenTokens : RouteObserver {
  void on_routes(int layer, const Batch& batch, std::span<const int32_t>,
                 std::span<const float>) override {
    for (size_t t = 0; layer == 0 && t < batch.ids.size(); ++t) {
      tokens.emplace_back(batch.sequences.at(t), batch.positions[t]);
    }
  }
  std::vector<std::pair<int32_t, int32_t>> tokens;
};

// The tiny model on one rank, greedy.
class EngineTest : public testing::Test {
 protected:
  EngineTest() : rig_(8, &seen_) {}

  Engine engine(int max_batch) {
    return Engine(
        rig_.forward, rig_.cache, rig_.rig.config().vocab_size,
        {.limits = {.max_tokens = 8, .chunk = 3}, .max_context = 20, .max_batch = max_batch});
  }

  static Request request(std::vector<int32_t> prompt, int64_t max_tokens,
                         std::vector<int32_t>* got = nullptr) {
    Request made;
    made.prompt_ids = std::move(prompt);
    made.max_tokens = max_tokens;
    if (got != nullptr) {
      made.on_token = [got](int32_t id) {
        got->push_back(id);
        return true;
      };
    }
    return made;
  }

  SeenTokens seen_;
  ForwardRig rig_;
};

TEST_F(EngineTest, PromptIsReadInChunksThenOneTokenAStep) {
  Engine e = engine(1);
  e.add(request({1, 2, 3, 4}, 2));
  int steps = 0;
  while (e.step()) ++steps;
  EXPECT_EQ(steps, 3);  // chunks of 3 and 1, of which the last gives a token; then one more
  EXPECT_EQ(e.totals().num_prompt_tokens, 4);
  EXPECT_EQ(e.totals().num_new_tokens, 2);
  EXPECT_EQ(e.finish_reason(0), FinishReason::kLength);
}

TEST_F(EngineTest, ObserversSeeWhichRequestATokenBelongsTo) {
  Engine e = engine(2);
  e.add(request({1, 2}, 1));
  e.add(request({3, 4}, 2));
  while (e.step()) {
  }
  using Tokens = std::vector<std::pair<int32_t, int32_t>>;
  EXPECT_EQ(seen_.tokens, (Tokens{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}}));
}

TEST_F(EngineTest, StopIdEndsTheSequenceAndIsHandedOutLast) {
  std::vector<int32_t> free_run, stopped;
  Engine e = engine(1);
  e.add(request({1, 2, 3}, 4, &free_run));
  while (e.step()) {
  }
  Request second = request({1, 2, 3}, 4, &stopped);
  second.stop_ids = {free_run[1]};
  e.add(std::move(second));
  while (e.step()) {
  }
  EXPECT_EQ(e.finish_reason(1), FinishReason::kStop);
  EXPECT_EQ(stopped.back(), free_run[1]);
  EXPECT_LE(stopped.size(), 2u);
}

TEST_F(EngineTest, PagesOfEndedSequencesServeThoseThatWaited) {
  Engine e = engine(2);
  for (int i = 0; i < 9; ++i) e.add(request({i, i, i}, 5));
  while (e.step()) {
  }
  EXPECT_EQ(rig_.cache.num_free_pages(), 4);
  EXPECT_EQ(e.totals().num_new_tokens, 45);
}

TEST_F(EngineTest, ContextEndsTheSequence) {
  Engine e = engine(1);
  std::vector<int32_t> got;
  e.add(request({1, 2}, 100, &got));
  while (e.step()) {
  }
  EXPECT_EQ(got.size(), 18u);
  EXPECT_EQ(e.finish_reason(0), FinishReason::kLength);
}

SamplingParams drawing(uint64_t seed) {
  return {.greedy = false, .temperature = 2, .top_p = 0.9f, .seed = seed};
}

TEST_F(EngineTest, TokensAreThoseThatTheSamplerDrawsFromTheLogits) {
  for (const SamplingParams& sampling : {SamplingParams{}, drawing(3)}) {
    Engine e = engine(1);
    std::vector<int32_t> got, want;
    Request asked = request({1, 2, 3, 4}, 12, &got);
    asked.sampling = sampling;
    asked.on_logits = [&](std::span<const float> row) {
      want.push_back(sample(row, token_draw(sampling, {.position = 4 + want.size()}, 10)));
    };
    e.add(std::move(asked));
    while (e.step()) {
    }
    EXPECT_EQ(got.size(), 12u);
    EXPECT_EQ(got, want);
  }
}

TEST_F(EngineTest, TokensAreTheSameWhereNobodyReadsLogitsAndBesideMates) {
  std::vector<std::vector<int32_t>> got(5);
  Engine e = engine(2);
  for (size_t i = 0; i < got.size(); ++i) {
    Request asked = request({1, 2, 3, 4}, 8, &got[i]);
    asked.sampling = drawing(7);
    if (i % 2 == 0) asked.on_logits = [](std::span<const float>) {};
    if (i % 3 == 0) asked.score_prompt = true;
    e.add(std::move(asked));
  }
  while (e.step()) {
  }
  for (const auto& ids : got) EXPECT_EQ(ids, got.front());
}

TEST_F(EngineTest, LogitsOfThePromptAreSeenOnlyWhereAskedFor) {
  for (const bool score_prompt : {false, true}) {
    for (const int64_t max_tokens : {0, 2}) {
      Engine e = engine(1);
      int64_t num_rows = 0;
      Request asked = request({1, 2, 3, 4}, max_tokens);
      asked.score_prompt = score_prompt;
      asked.on_logits = [&](std::span<const float> row) {
        EXPECT_EQ(row.size(), 10u);
        ++num_rows;
      };
      e.add(std::move(asked));
      while (e.step()) {
      }
      EXPECT_EQ(num_rows, (score_prompt ? 3 : 0) + max_tokens);
      EXPECT_EQ(e.finish_reason(0), FinishReason::kLength);
    }
  }
}

// Position, id and log probability, by hand from the logits that are shown beside them.
TEST_F(EngineTest, ScoresAreOfThePromptsTokensAndOfThoseThatArePicked) {
  Engine e = engine(1);
  std::vector<int32_t> got;
  std::vector<double> want;
  std::vector<TokenScore> scores;
  Request asked = request({1, 2, 3, 4}, 2, &got);
  asked.score_prompt = true;
  asked.num_top_scores = 2;
  asked.on_logits = [&](std::span<const float> row) {
    for (int32_t id = 0; id < 10; ++id) want.push_back(log_probability(row, id));
  };
  asked.on_score = [&](const TokenScore& score) { scores.push_back(score); };
  e.add(std::move(asked));
  while (e.step()) {
  }
  const std::vector<int32_t> ids = {2, 3, 4, got[0], got[1]};
  ASSERT_EQ(scores.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(scores[i].id, ids[i]);
    EXPECT_EQ(scores[i].position, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(scores[i].logprob, want[10 * i + static_cast<size_t>(ids[i])]);
    EXPECT_EQ(scores[i].top.size(), 2u);
  }
}

TEST_F(EngineTest, StartTellsHowMuchOfThePromptWasThere) {
  Engine e(rig_.forward, rig_.cache, 10,
           {.limits = {.max_tokens = 8, .chunk = 8}, .max_context = 100, .prefix_salt = 1});
  std::vector<int64_t> got;
  for (int i = 0; i < 2; ++i) {
    Request asked = request(std::vector<int32_t>(70, 1), 1);
    asked.on_start = [&](int64_t num_reused) { got.push_back(num_reused); };
    e.add(std::move(asked));
    while (e.step()) {
    }
  }
  EXPECT_EQ(got, (std::vector<int64_t>{0, 64}));
}

TEST_F(EngineTest, CancelledSequencesEndAndSaySo) {
  Engine e = engine(1);
  e.add(request({1, 2}, 10));
  e.step();
  e.cancel_all();
  EXPECT_FALSE(e.step());
  EXPECT_EQ(e.finish_reason(0), FinishReason::kCancelled);
}

TEST_F(EngineTest, WrongPromptsAreNamed) {
  Engine e = engine(1);
  EXPECT_ERROR(e.add(request({}, 1)), kInput, "prompt is empty");
  EXPECT_ERROR(e.add(request({10}, 1)), kInput, "prompt id 10");
  EXPECT_ERROR(e.add(request(std::vector<int32_t>(20, 1), 1)), kInput, "at most 19");
}

}  // namespace
}  // namespace colibri
