// Answers byte by byte: clients read them so.
#include "coordinator/api_response.h"

#include <gtest/gtest.h>

#include <memory>

#include "coordinator/api_choice.h"
#include "coordinator/api_score.h"
#include "model/tokenizer.h"

namespace colibri {
namespace {

const ApiIdentity kChat{.id = "chatcmpl-1", .created = 7, .model = "m"};
const ApiIdentity kText{.id = "cmpl-1", .created = 7, .model = "m", .is_chat = false};
const std::string kChunk =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[)";

TEST(ApiResponseTest, WholeChatAnswer) {
  EXPECT_EQ(api_answer(kChat, {{.text = "Hi", .reason = FinishReason::kStop}},
                       {.prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 1}),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"m","choices":[)"
            R"({"index":0,"message":{"role":"assistant","content":"Hi"},"logprobs":null,)"
            R"("finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,)"
            R"("total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}})");
}

TEST(ApiResponseTest, WholeCompletion) {
  EXPECT_EQ(api_answer(kText, {{.index = 1, .text = "x", .reason = FinishReason::kLength}}, {}),
            R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[)"
            R"({"index":1,"text":"x","logprobs":null,"finish_reason":"length"}],)"
            R"("usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(ApiResponseTest, ChatStreamBeginsWithTheRole) {
  EXPECT_EQ(api_first_event(kChat, 2),
            kChunk + R"({"index":2,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                     R"("finish_reason":null}]})"
                     "\n\n");
  EXPECT_EQ(api_first_event(kText, 2), "");
}

TEST(ApiResponseTest, PiecesHaveNoReasonYet) {
  EXPECT_EQ(api_piece_event(kChat, {.text = "a\n"}),
            kChunk + R"({"index":0,"delta":{"content":"a\n"},"logprobs":null,)"
                     R"("finish_reason":null}]})"
                     "\n\n");
}

TEST(ApiResponseTest, ReasonComesWithoutContent) {
  EXPECT_EQ(api_reason_event(kChat, 0, FinishReason::kStop),
            kChunk + R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})"
                     "\n\n");
  EXPECT_TRUE(api_reason_event(kText, 0, FinishReason::kLength)
                  .ends_with(R"("text":"","logprobs":null,"finish_reason":"length"}]})"
                             "\n\n"));
}

TEST(ApiResponseTest, UsageEventHasNoChoices) {
  EXPECT_NE(api_usage_event(kChat, {.prompt_tokens = 4}).find(R"("choices":[],"usage":{)"),
            std::string::npos);
}

// Half of a character: as bytes, and as a replacement in the text.
TEST(ApiResponseTest, LogprobsOfChatHaveBytes) {
  const std::vector<ApiToken> tokens = {{"\xc3", -0.5, {{"\xc3", -0.5}, {"a", -1}}}};
  const std::string got = api_piece_event(kChat, {.text = "", .tokens = tokens});
  EXPECT_NE(got.find(R"("logprobs":{"content":[{"token":"�","logprob":-0.5,"bytes":[195],)"
                     R"("top_logprobs":[{"token":"�","logprob":-0.5,"bytes":[195]},)"
                     R"({"token":"a","logprob":-1.0,"bytes":[97]}]}]})"),
            std::string::npos)
      << got;
}

TEST(ApiResponseTest, LogprobsOfCompletionsHaveOffsetsAndTheChosenTokenAmongTheTop) {
  const std::vector<ApiToken> tokens = {{.bytes = "ab", .logprob = std::nullopt, .offset = 0},
                                        {"c", -2, {{"d", -0.5}}, 2},
                                        {"\xc3", -1, {{"\xc3", -1}}, 3}};
  const std::string got = api_answer(kText, {{.text = "abc", .tokens = tokens}}, {});
  EXPECT_NE(got.find(R"("logprobs":{"tokens":["ab","c","bytes:\\xc3"],)"
                     R"("token_logprobs":[null,-2.0,-1.0],)"
                     R"("top_logprobs":[null,{"d":-0.5,"c":-2.0},{"bytes:\\xc3":-1.0}],)"
                     R"("text_offset":[0,2,3]})"),
            std::string::npos)
      << got;
}

TEST(ApiScoreTest, SumsSharesAndEntropy) {
  const std::string got = api_score_answer({.id = "score-1", .created = 7, .model = "m"},
                                           {{"a", {1}, {-1}}, {"b", {2, 3}, {-0.25, -0.75}}},
                                           {.prompt_tokens = 4, .cached_tokens = 1});
  EXPECT_EQ(
      got,
      R"({"id":"score-1","object":"score","created":7,"model":"m","candidates":[)"
      R"({"index":0,"text":"a","ids":[1],"logprob":-1.0,"logprob_per_token":-1.0,)"
      R"("probability":0.5},{"index":1,"text":"b","ids":[2,3],"logprob":-1.0,)"
      R"("logprob_per_token":-0.5,"probability":0.5}],"best":0,)"
      R"("entropy":0.6931471805599453,"normalised_entropy":1.0,"usage":{"prompt_tokens":4,)"
      R"("completion_tokens":0,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":1}}})");
}

TEST(ApiScoreTest, CandidatesThatCannotBeAreNamed) {
  const auto refusal = [](std::vector<std::vector<int32_t>> lists) -> std::string {
    std::vector<ScoredCandidate> candidates;
    for (auto& ids : lists) candidates.push_back({.text = "", .ids = std::move(ids)});
    try {
      check_candidates(candidates, 8, {"candidates", 10, 10});
    } catch (const ApiError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({{1}, {1, 2}}), "");
  EXPECT_NE(refusal({{1}, {}}).find("[1]' is empty"), std::string::npos);
  EXPECT_NE(refusal({{10}}).find("id 10"), std::string::npos);
  EXPECT_NE(refusal({{1, 2, 3}}).find("11 tokens"), std::string::npos);
  EXPECT_NE(refusal({{1}, {2}, {1}}).find("tokens of 'candidates[0]'"), std::string::npos);
}

// Ids: 0 "a", 1 and 2 the two bytes of "é", 3 "xy", 4 ends the text.
class GrowingChoiceTest : public testing::Test {
 protected:
  std::unique_ptr<GrowingChoice> choice(ChoiceOptions options) {
    options.has_logprobs = true;
    options.end_ids = {4};
    return std::make_unique<GrowingChoice>(tokenizer_, std::move(options),
                                           [this](const ApiChoice& piece) {
                                             std::string text = piece.text + "|";
                                             for (const ApiToken& token : *piece.tokens) {
                                               text += token.bytes + std::to_string(token.offset);
                                             }
                                             pieces_.push_back(text);
                                           });
  }
  static void add(GrowingChoice& choice, std::vector<int32_t> ids, int64_t position = 9) {
    for (const int32_t id : ids) {
      choice.add_score({.position = position++, .id = id, .logprob = -1});
      choice.add_token(id);
    }
  }

  Tokenizer tokenizer_ = Tokenizer::from_json(
      R"({"model": {"vocab": {"a": 0, "Ã": 1, "©": 2, "xy": 3}}, "decoder": {"type": "ByteLevel"},
          "added_tokens": [{"id": 4, "content": "<e>", "special": true}]})",
      "");
  std::vector<std::string> pieces_;
};

TEST_F(GrowingChoiceTest, TokensComeWithTheTextThatTheyFinish) {
  const auto one = choice({});
  one->begin();
  add(*one, {0, 1, 2, 3, 4});
  one->end(FinishReason::kStop);
  EXPECT_EQ(pieces_, (std::vector<std::string>{"a|a0",
                                               "é|\xc3"
                                               "1\xa9"
                                               "1",
                                               "xy|xy2"}));
  EXPECT_EQ(one->whole().tokens->size(), 4u);
  EXPECT_EQ(one->num_tokens(), 5);
}

TEST_F(GrowingChoiceTest, TokensWhoseTextIsHeldBackComeAtTheEnd) {
  const auto one = choice({.stops = {"xyz"}});
  one->begin();
  add(*one, {0, 3, 1});
  one->end(FinishReason::kLength);
  EXPECT_EQ(pieces_, (std::vector<std::string>{"a|a0",
                                               "xy\xef\xbf\xbd|xy1\xc3"
                                               "3"}));
}

TEST_F(GrowingChoiceTest, EchoWaitsForItsScoresAndItsFirstTokenHasNone) {
  const auto one = choice({.echo_text = "axy", .echo_ids = {0, 3}});
  one->begin();
  EXPECT_TRUE(pieces_.empty());
  one->add_score({.position = 1, .id = 3, .logprob = -3});
  add(*one, {0}, 2);
  EXPECT_EQ(pieces_, std::vector<std::string>{"axya|a0xy1a3"});
  const ApiChoice whole = one->whole();
  EXPECT_EQ(whole.text, "axya");
  EXPECT_FALSE(whole.tokens->front().logprob);
  EXPECT_EQ((*whole.tokens)[1].logprob, -3);
}

}  // namespace
}  // namespace colibri
