// Answers byte by byte: clients read them so.
#include "coordinator/api_response.h"

#include <gtest/gtest.h>

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

TEST(ApiResponseTest, LogprobsOfCompletionsHaveOffsets) {
  const std::vector<ApiToken> tokens = {{"ab", -0.5, {{"ab", -0.5}}}, {"c", -2}};
  const std::string got =
      api_answer(kText, {{.text = "abc", .tokens = tokens, .text_offset = 10}}, {});
  EXPECT_NE(got.find(R"("logprobs":{"tokens":["ab","c"],"token_logprobs":[-0.5,-2.0],)"
                     R"("top_logprobs":[{"ab":-0.5},{}],"text_offset":[10,12]})"),
            std::string::npos)
      << got;
}

}  // namespace
}  // namespace colibri
