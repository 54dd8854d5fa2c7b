// Bodies as clients send them, and what is made of them.
#include "coordinator/api_request.h"

#include <gtest/gtest.h>

#include "coordinator/chat_prompts.h"
#include "coordinator/profile_service.h"

namespace colibri {
namespace {

template <class Parse>
void expect_refused(Parse&& parse, const std::string& body, const std::string& param,
                    const std::string& part) {
  try {
    parse(body);
    ADD_FAILURE() << "accepted: " << body;
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.param(), param) << body;
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}
void expect_chat_refused(const std::string& more, const std::string& param,
                         const std::string& part) {
  expect_refused(parse_chat_request, R"({"messages":[{"role":"user","content":"a"}],)" + more + "}",
                 param, part);
}
void expect_completion_refused(const std::string& more, const std::string& param,
                               const std::string& part) {
  expect_refused(parse_completion_request, R"({"prompt":"a",)" + more + "}", param, part);
}

ApiRequest chat(const std::string& more = R"("n":1)") {
  return parse_chat_request(R"({"messages":[{"role":"user","content":"a"}],)" + more + "}");
}
ApiRequest completion(const std::string& more = R"("n":1)") {
  return parse_completion_request(R"({"prompt":"a",)" + more + "}");
}

TEST(ApiRequestTest, LeftOutFieldsHaveTheirDefaults) {
  const ApiRequest request = chat();
  EXPECT_EQ(request.messages, R"([{"role":"user","content":"a"}])");
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.max_tokens || request.top_logprobs || request.stream || request.echo);
  EXPECT_FALSE(request.sampling.temperature || request.sampling.seed);
  EXPECT_TRUE(request.add_generation_prompt);
}

TEST(ApiRequestTest, ContentInPartsIsOneText) {
  const auto messages = [](const std::string& content) {
    return parse_chat_request(R"({"messages":[{"role":"user","content":)" + content + "}]}")
        .messages;
  };
  EXPECT_EQ(messages(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"),
            R"([{"role":"user","content":"a\nb"}])");
  EXPECT_EQ(messages("[]"), R"([{"role":"user","content":""}])");
  EXPECT_EQ(messages("null"), R"([{"role":"user","content":null}])");
  expect_refused(messages, R"([{"type":"image_url"}])", "messages[0].content", "parts");
  expect_refused(messages, "7", "messages[0].content", "a list of parts");
}

TEST(ApiRequestTest, PromptHasFourForms) {
  const auto prompts = [](const std::string& form) {
    return parse_completion_request("{\"prompt\":" + form + "}").prompts;
  };
  EXPECT_EQ(prompts(R"("a")"), std::vector<ApiPrompt>{"a"});
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector<ApiPrompt>{"a", "b"}));
  EXPECT_EQ(prompts("[1,2]"), std::vector<ApiPrompt>{(std::vector<int32_t>{1, 2})});
  EXPECT_EQ(prompts("[[1],[2,3]]").size(), 2u);
}

TEST(ApiRequestTest, NullIsLeftOut) {
  const ApiRequest request = chat(R"("stop":null,"temperature":null,"stream_options":null)");
  EXPECT_TRUE(request.stop.empty());
  EXPECT_FALSE(request.sampling.temperature);
}

TEST(ApiRequestTest, NewerNameOfTheLimitCounts) {
  EXPECT_EQ(chat(R"("max_tokens":5)").max_tokens, 5);
  EXPECT_EQ(chat(R"("max_tokens":5,"max_completion_tokens":7)").max_tokens, 7);
}

TEST(ApiRequestTest, StopIsATextOrSeveral) {
  EXPECT_EQ(chat(R"("stop":"x")").stop, std::vector<std::string>{"x"});
  EXPECT_EQ(chat(R"("stop":["x","","y"])").stop, (std::vector<std::string>{"x", "y"}));
}

TEST(ApiRequestTest, UsageInStreamsIsAskedFor) {
  EXPECT_FALSE(chat(R"("stream":true)").include_usage);
  EXPECT_TRUE(chat(R"("stream":true,"stream_options":{"include_usage":true})").include_usage);
}

TEST(ApiRequestTest, LogprobsHaveTwoForms) {
  EXPECT_EQ(chat(R"("logprobs":true)").top_logprobs, 0);
  EXPECT_EQ(chat(R"("logprobs":true,"top_logprobs":3)").top_logprobs, 3);
  EXPECT_EQ(completion(R"("logprobs":4)").top_logprobs, 4);
}

TEST(ApiRequestTest, BiasesAreByTokenId) {
  const auto biases = chat(R"("logit_bias":{"7":-100,"9":1.5})").sampling.rules.biases;
  EXPECT_EQ(biases, (std::map<int32_t, float>{{7, -100.0f}, {9, 1.5f}}));
}

TEST(ApiRequestTest, RulesHaveNoEffectUnlessAskedFor) {
  EXPECT_FALSE(chat(R"("presence_penalty":0,"logit_bias":{})").sampling.rules.has_effect());
  for (const char* field :
       {"presence_penalty", "frequency_penalty", "repetition_penalty", "min_tokens"}) {
    EXPECT_TRUE(chat("\"" + std::string(field) + "\":2").sampling.rules.has_effect()) << field;
  }
}

TEST(ApiRequestTest, FieldsWithoutEffectAreAccepted) {
  EXPECT_NO_THROW(chat(R"("user":"u","metadata":{},"store":false,"tool_choice":"none")"));
  EXPECT_NO_THROW(chat(R"("response_format":{"type":"text"})"));
}

TEST(ApiRequestTest, OtherFieldsAreRefusedByName) {
  expect_chat_refused(R"("functions":[])", "functions", "not supported");
  expect_chat_refused(R"("response_format":{"type":"json_object"})", "response_format", "text");
  expect_chat_refused(R"("response_format":{"type":5})", "response_format", "text");
  expect_chat_refused(R"("tool_choice":"required")", "tool_choice", "none");
  expect_completion_refused(R"("suffix":"s")", "suffix", "not supported");
  expect_completion_refused(R"("best_of":3)", "best_of", "is 3");
  expect_completion_refused(R"("messages":[])", "messages", "not supported");
}

TEST(ApiRequestTest, ValuesOutOfRangeAreNamed) {
  expect_chat_refused(R"("temperature":2.1)", "temperature", "from 0.0 to 2.0");
  expect_chat_refused(R"("temperature":"hot")", "temperature", "a number");
  expect_chat_refused(R"("top_p":0)", "top_p", "above 0");
  expect_chat_refused(R"("n":0)", "n", "from 1 to 128");
  expect_chat_refused(R"("n":1.5)", "n", "an integer");
  expect_chat_refused(R"("max_tokens":0)", "max_tokens", "from 1");
  expect_chat_refused(R"("seed":18446744073709551615)", "seed", "an integer");
  expect_chat_refused(R"("stop":[1])", "stop", "strings");
  expect_chat_refused(R"("logit_bias":{"x":1})", "logit_bias", "a token id");
  expect_chat_refused(R"("logit_bias":{"1":101})", "logit_bias", "from -100 to 100");
  expect_chat_refused(R"("presence_penalty":2.1)", "presence_penalty", "from -2.0 to 2.0");
  expect_chat_refused(R"("repetition_penalty":0)", "repetition_penalty", "above 0");
  expect_completion_refused(R"("logprobs":6)", "logprobs", "from 0 to 5");
  expect_completion_refused(R"("logprobs":true)", "logprobs", "an integer");
  expect_chat_refused(R"("top_logprobs":1)", "top_logprobs", "'logprobs': true");
  expect_chat_refused(R"("stream_options":{})", "stream_options", "'stream': true");
  expect_chat_refused(R"("stream":true,"stream_options":{"x":1})", "x", "not supported");
}

TEST(ApiRequestTest, ScoreHasADocumentOrAConversationAndCandidates) {
  const ApiRequest text =
      parse_score_request(R"({"document":[1,2],"candidates":["a",[3]],"user":"u"})");
  EXPECT_EQ(text.prompts, std::vector<ApiPrompt>{(std::vector<int32_t>{1, 2})});
  EXPECT_EQ(text.candidates, (std::vector<ApiPrompt>{"a", std::vector<int32_t>{3}}));
  const std::string messages = R"("messages":[{"role":"user","content":"a"}])";
  EXPECT_FALSE(parse_score_request("{" + messages + R"(,"candidates":["a"]})").messages.empty());
  expect_refused(parse_score_request, R"({"candidates":["a"]})", "document", "either");
  expect_refused(parse_score_request, R"({"document":"d",)" + messages + "}", "document", "either");
  expect_refused(parse_score_request, R"({"document":"d"})", "candidates", "missing");
  expect_refused(parse_score_request, R"({"document":"d","candidates":[]})", "candidates", "list");
  expect_refused(parse_score_request, R"({"document":"d","candidates":[[]]})", "candidates", "ids");
  expect_refused(parse_score_request, R"({"document":"d","candidates":["a"],"n":1})", "n",
                 "not supported");
}

TEST(ApiRequestTest, FinalMessageIsContinuedInsteadOfAPromptForAnother) {
  const ApiRequest request = chat(R"("continue_final_message":true)");
  EXPECT_EQ(request.continued, "a");
  EXPECT_FALSE(request.add_generation_prompt);
  expect_chat_refused(R"("continue_final_message":true,"add_generation_prompt":true)",
                      "add_generation_prompt", "false beside");
  expect_refused(parse_chat_request,
                 R"({"messages":[{"role":"a","content":" "}],"continue_final_message":true})",
                 "continue_final_message", "with text");
}

// White space at the ends counts where the template keeps it.
TEST(ApiRequestTest, TextEndsAfterTheContentThatIsContinued) {
  EXPECT_EQ(cut_after_content("a: hi</s>b: hi </s>", "hi "), "a: hi</s>b: hi ");
  EXPECT_EQ(cut_after_content("b: hi</s>", "\n hi "), "b: hi");
  EXPECT_EQ(cut_after_content("b: ho</s>", "hi"), std::nullopt);
}

TEST(ApiRequestTest, TokenEndpointsReadTheirBodies) {
  EXPECT_FALSE(
      parse_tokenize_request(R"({"prompt":"a","add_special_tokens":false})").add_special_tokens);
  EXPECT_EQ(parse_detokenize_request(R"({"tokens":[1,2]})"), (std::vector<int32_t>{1, 2}));
  expect_refused(parse_tokenize_request, R"({"prompt":"a","x":1})", "x", "not supported");
  expect_refused(parse_tokenize_request, "{}", "prompt", "missing");
  expect_refused(parse_detokenize_request, R"({"tokens":"a"})", "tokens", "a list");
  expect_refused(parse_detokenize_request, R"({"tokens":[-1]})", "tokens", "an integer");
}

TEST(ApiRequestTest, WhatIsNoRequestIsRefused) {
  expect_refused(parse_chat_request, "{", "", "not JSON");
  expect_refused(parse_chat_request, "[]", "", "no JSON object");
  expect_refused(parse_chat_request, "{\"messages\":" + std::string(1000000, '['), "", "deeper");
  std::string keys;  // which would take minutes to read
  for (int i = 0; i < 100000; ++i)
    keys += (i == 0 ? "" : ",") + ("\"" + std::to_string(i)) + "\":1";
  expect_refused(parse_chat_request, "{" + keys + "}", "", "more than 4096 keys");
  expect_refused(parse_chat_request, "{}", "messages", "missing");
  expect_refused(parse_chat_request, R"({"messages":[]})", "messages", "at least one");
  expect_refused(parse_chat_request, R"({"messages":[{}]})", "messages[0]", "'role'");
  expect_refused(parse_completion_request, "{}", "prompt", "missing");
  expect_refused(parse_completion_request, R"({"prompt":[]})", "prompt", "a string");
  expect_refused(parse_completion_request, R"({"prompt":[-1]})", "prompt", "an integer");
}

TEST(ApiRequestTest, TemperatureZeroIsGreedyAndSilenceTheModelsDefault) {
  const SamplingParams defaults{.greedy = false, .temperature = 0.6f, .top_p = 0.9f, .top_k = 20};
  EXPECT_TRUE(sampling_of({.temperature = 0.0}, defaults).greedy);
  EXPECT_TRUE(sampling_of({.temperature = 1e-60}, defaults).greedy);  // 0 as the sampler has it
  const SamplingParams got = sampling_of({.top_k = -1, .seed = 7}, defaults);
  EXPECT_FALSE(got.greedy);
  EXPECT_EQ(got.temperature, 0.6f);
  EXPECT_EQ(got.top_p, 0.9f);
  EXPECT_EQ(got.top_k, 0);
  EXPECT_EQ(got.seed, 7u);
}

TEST(ApiRequestTest, ErrorBodyHasFourFields) {
  EXPECT_EQ(api_error_body(400, "n", "no"),
            R"({"error":{"message":"no","type":"invalid_request_error","param":"n","code":400}})");
  EXPECT_EQ(api_error_body(503, "", "busy"),
            R"({"error":{"message":"busy","type":"server_error","param":null,"code":503}})");
}

TEST(ProfileRequestTest, PlaceIsBelowTheServersDirectory) {
  const auto place = [](const std::string& name) {
    return parse_profile_request(R"({"output_dir":")" + name + "\"}").output_dir;
  };
  EXPECT_EQ(place("a/b-1/c_2.x"), "a/b-1/c_2.x");
  EXPECT_NE(parse_profile_request("").output_dir, parse_profile_request("{}").output_dir);
  for (const char* bad : {"", "/", "/etc", "..", "a/../b", "a/..", ".a", "a//b", "a/", "a b",
                          "a\\u0000b", "a\\\\b", "\\u00e4", "a/b/c/d/e/f/g/h/i", "~", "$HOME"}) {
    EXPECT_THROW(place(bad), ApiError) << bad;
  }
  EXPECT_THROW(place(std::string(129, 'a')), ApiError);
}

TEST(ProfileRequestTest, OtherFieldsAndWrongStepsAreRefused) {
  EXPECT_EQ(parse_profile_request(R"({"num_steps":3})").num_steps, 3);
  std::string many = "{\"k\":0";  // on the server's thread, so it must not be slow either
  for (int i = 0; i < 5000; ++i) many += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_NO_THROW((check_stop_request(""), check_stop_request("{}")));
  expect_refused(check_stop_request, R"({"num_steps":3})", "num_steps", "not supported");
  expect_refused(parse_profile_request, many + "}", "", "more than 4096 keys");
  for (const char* bad : {R"({"num_steps":0})", R"({"num_steps":-1})", R"({"num_steps":1.5})",
                          R"({"num_steps":"1"})", R"({"num_steps":99999999999999999999})",
                          R"({"output_dir":1})", R"({"start_step":1})", "[]", "{", "1"}) {
    EXPECT_THROW(parse_profile_request(bad), ApiError) << bad;
  }
}

}  // namespace
}  // namespace colibri
