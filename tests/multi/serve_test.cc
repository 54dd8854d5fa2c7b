// The server as a process, asked over real sockets.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tests/multi/served.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

using nlohmann::json;

class ServeTest : public testing::Test {
 protected:
  void start(const Words& more = {}) {
    served_ = std::make_unique<Served>(joined({"--max-context", "256"}, more));
    run_ = &served_->process();
    port_ = served_->port();
  }

  // Status line, and the body of an answer with a length.
  struct Answer {
    std::string status;
    json body;
  };
  Answer ask(const std::string& request) {
    HttpClient client(port_);
    client.send(request);
    const std::string head = client.read_until("\r\n\r\n");
    const size_t length = head.find("Content-Length: ");
    std::string body;
    if (length != head.npos) {
      const auto count = static_cast<size_t>(std::stoul(head.substr(length + 16)));
      body = client.read_bytes(count);
    }
    return {head.substr(0, head.find("\r\n")), json::parse(body, nullptr, false)};
  }
  Answer complete(const json& request) { return ask(http_post("/v1/completions", request.dump())); }

  // The value of a series of /metrics, once it has become `wanted`, or after a few seconds.
  std::string metric(const std::string& series, const std::string& wanted) {
    std::string got;
    wait_until(
        [&] {
          HttpClient client(port_);
          client.send("GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
          const std::string text = client.read_all(), line = "\n" + series + " ";
          const size_t at = text.find(line);
          if (at != text.npos) got = text.substr(at + line.size());
          got = got.substr(0, got.find('\n'));
          return got == wanted;
        },
        5);
    return got;
  }

  std::string generated(const Words& more) {
    return run_command(generate_demo(joined({"--prompt", "ROMEO:", "--max-tokens", "24"}, more)),
                       60)
        .out;
  }

  std::unique_ptr<Served> served_;
  Command* run_ = nullptr;  // of it
  uint16_t port_ = 0;
};

const json kGreedy = {{"prompt", "ROMEO:"}, {"max_tokens", 24}, {"temperature", 0}};

json with(json request, const json& more) {
  request.update(more);
  return request;
}

TEST_F(ServeTest, CompletionIsTheTextOfGenerate) {
  start();
  const Answer got = complete(kGreedy);
  EXPECT_EQ(got.status, "HTTP/1.1 200 OK");
  const json& choice = got.body["choices"][0];
  EXPECT_EQ(choice["text"].get<std::string>() + "\n", generated({"--greedy"}));
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(got.body["usage"]["completion_tokens"], 24);
  EXPECT_EQ(got.body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(got.body["model"], "demo");
}

TEST_F(ServeTest, StreamHasTheSameTextInPieces) {
  start();
  const std::string whole = complete(kGreedy).body["choices"][0]["text"];
  HttpClient client(port_);
  client.send(http_post("/v1/completions", with(kGreedy, {{"stream", true}}).dump()));
  std::string text, event;
  client.read_until("\r\n\r\n");
  while ((event = client.read_until("\n\n")).find("[DONE]") == event.npos && !event.empty()) {
    text += json::parse(event.substr(event.find('{')))["choices"][0]["text"];
  }
  EXPECT_EQ(text, whole);
}

// Several at once, of several kinds, on ranks.
TEST_F(ServeTest, ChoicesAndPromptsAreAnsweredTogether) {
  start({"--ranks", "3"});
  const json one = complete(kGreedy).body["choices"][0]["text"];
  const Answer got = complete(with(kGreedy, {{"prompt", {"ROMEO:", "def ", "ROMEO:"}}, {"n", 2}}));
  ASSERT_EQ(got.body["choices"].size(), 6u) << got.body;
  for (const int i : {0, 1, 4, 5}) EXPECT_EQ(got.body["choices"][i]["text"], one) << i;
  EXPECT_NE(got.body["choices"][2]["text"], one);
}

TEST_F(ServeTest, ChoicesOfOnePromptDrawDifferently) {
  start();
  const json drawn = {{"temperature", 1}, {"seed", 5}, {"n", 2}};
  const Answer first = complete(with(kGreedy, drawn)), second = complete(with(kGreedy, drawn));
  EXPECT_NE(first.body["choices"][0]["text"], first.body["choices"][1]["text"]);
  EXPECT_EQ(first.body["choices"], second.body["choices"]);
}

TEST_F(ServeTest, StopEndsTheText) {
  start();
  const std::string whole = complete(kGreedy).body["choices"][0]["text"];
  const std::string word = whole.substr(whole.find("will"), 4);
  const Answer got = complete(with(kGreedy, {{"stop", word}}));
  EXPECT_EQ(got.body["choices"][0]["text"], whole.substr(0, whole.find(word)));
  EXPECT_EQ(got.body["choices"][0]["finish_reason"], "stop");
}

// Of "OMEO:" after "R", as `colibri score` has it.
TEST_F(ServeTest, LogprobsOfAnEchoedPromptAreThoseOfScore) {
  start();
  const json ids = ask(http_post("/tokenize", R"({"prompt":"ROMEO:"})")).body["tokens"];
  const Answer got =
      complete({{"prompt", ids}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  const json& choice = got.body["choices"][0];
  EXPECT_EQ(choice["text"], "ROMEO:");
  const json& logprobs = choice["logprobs"]["token_logprobs"];
  ASSERT_EQ(logprobs.size(), 5u) << got.body;
  EXPECT_EQ(logprobs[0], nullptr);
  double sum = 0;
  for (size_t i = 1; i < 5; ++i) sum += logprobs[i].get<double>();
  const json scored = json::parse(
      run_command(
          {kProgram, "score", "--model", kDemo, "--document", "R", "--continuation", "OMEO:"}, 60)
          .out);
  EXPECT_EQ(scored["continuations"][0]["logprob"], sum);
}

TEST_F(ServeTest, LogprobsAreTheSameBesideOthersAndInAStream) {
  start();
  const json asked = with(kGreedy, {{"logprobs", 3}, {"max_tokens", 8}});
  const json alone = complete(asked).body["choices"][0];
  const json crowd =
      complete(with(asked, {{"prompt", {"def ", "ROMEO:", "ROMEO:"}}})).body["choices"];
  EXPECT_EQ(crowd[1]["logprobs"], alone["logprobs"]);
  HttpClient client(port_);
  client.send(http_post("/v1/completions", with(asked, {{"stream", true}}).dump()));
  client.read_until("\r\n\r\n");
  json tokens = json::array(), offsets = json::array();
  std::string event;
  while ((event = client.read_until("\n\n")).find("[DONE]") == event.npos && !event.empty()) {
    const json logprobs = json::parse(event.substr(event.find('{')))["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    for (const json& one : logprobs["token_logprobs"]) tokens.push_back(one);
    for (const json& one : logprobs["text_offset"]) offsets.push_back(one);
  }
  EXPECT_EQ(tokens, alone["logprobs"]["token_logprobs"]);
  EXPECT_EQ(offsets, alone["logprobs"]["text_offset"]);
}

TEST_F(ServeTest, RulesChangeWhatIsPickedAndNothingBesideIt) {
  start();
  const json alone = complete(kGreedy).body["choices"][0]["text"];
  const json first = complete(with(kGreedy, {{"max_tokens", 1}, {"logprobs", 0}})).body;
  const std::string word = first["choices"][0]["text"];
  const json ids = ask(http_post("/tokenize", json{{"prompt", word}}.dump())).body["tokens"];
  const std::string id = ids[0].dump();
  const json barred = complete(with(kGreedy, {{"logit_bias", {{id, -100}}}})).body["choices"][0];
  EXPECT_FALSE(barred["text"].get<std::string>().starts_with(word));
  EXPECT_NE(complete(with(kGreedy, {{"frequency_penalty", 2}})).body["choices"][0]["text"], alone);
  EXPECT_EQ(complete(kGreedy).body["choices"][0]["text"], alone);
  // A stop id that would come at once has to wait.
  const json stops = {{"stop_token_ids", ids}, {"max_tokens", 8}, {"min_tokens", 4}};
  EXPECT_GE(complete(with(kGreedy, stops)).body["usage"]["completion_tokens"], 5);
}

// Bit for bit, also beside others and where the document's pages are there already.
TEST_F(ServeTest, ScoresAreThoseOfTheVerb) {
  start({"--ranks", "2"});
  std::string document;
  for (int i = 0; i < 20; ++i) document += "ROMEO: O, I will. ";
  const std::vector<std::string> candidates = {" yes", " no", " I will not be so"};
  Words words = {kProgram, "score", "--model", kDemo, "--document", document};
  for (const auto& one : candidates) words = joined(words, {"--continuation", one});
  const json want = json::parse(run_command(words, 60).out);
  const json asked = {{"document", document}, {"candidates", candidates}};
  HttpClient other(port_);
  other.send(http_post("/v1/completions", with(kGreedy, {{"max_tokens", 100}}).dump()));
  for (const int num_cached : {0, 64}) {
    const json got = ask(http_post("/v1/score", asked.dump())).body;
    ASSERT_EQ(got["candidates"].size(), 3u) << got;
    for (size_t i = 0; i < 3; ++i) {
      for (const char* key : {"ids", "logprob", "logprob_per_token", "probability"}) {
        EXPECT_EQ(got["candidates"][i][key], want["continuations"][i][key]) << key;
      }
    }
    EXPECT_EQ(got["best"], want["best"]);
    EXPECT_EQ(got["normalised_entropy"], want["normalised_entropy"]);
    EXPECT_EQ(got["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, num_cached > 0);
  }
}

// The demo model with a template beside it.
class ChatTest : public ServeTest {
 protected:
  ChatTest() {
    for (const auto& file : std::filesystem::directory_iterator(kDemo)) {
      std::filesystem::create_symlink(file.path(), dir_.path() / file.path().filename());
    }
    std::ofstream(dir_ / "chat_template.jinja")
        << "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}\n{% endfor %}"
           "{% if add_generation_prompt %}ROMEO:{% endif %}{{ tail or '' }}";
  }
  Answer chat(const json& more) {
    const json request = {{"messages", json::array({{{"role", "nurse"}, {"content", "Go."}}})},
                          {"max_tokens", 16},
                          {"temperature", 0}};
    return ask(http_post("/v1/chat/completions", with(request, more).dump()));
  }
  json completed(const std::string& prompt) {
    return complete(with(kGreedy, {{"prompt", prompt}, {"max_tokens", 16}})).body["choices"][0];
  }

  TempDir dir_;
};

TEST_F(ChatTest, AnswersWhatTheTemplateAsks) {
  start({"--model", dir_.path().string()});
  const json got = chat(json::object()).body;
  EXPECT_EQ(got["object"], "chat.completion");
  EXPECT_EQ(got["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(got["choices"][0]["message"]["content"], completed("NURSE: Go.\nROMEO:")["text"]);
  const json kwargs = {{"chat_template_kwargs", {{"tail", " O"}}}};
  EXPECT_EQ(chat(kwargs).body["choices"][0]["message"]["content"],
            completed("NURSE: Go.\nROMEO: O")["text"]);
}

TEST_F(ChatTest, StreamBeginsWithTheRoleAndEndsWithTheReason) {
  start({"--model", dir_.path().string()});
  HttpClient client(port_);
  const json request = {{"messages", json::array({{{"role", "nurse"}, {"content", "Go."}}})},
                        {"max_tokens", 2},
                        {"temperature", 0},
                        {"stream", true},
                        {"stream_options", {{"include_usage", true}}}};
  client.send(http_post("/v1/chat/completions", request.dump()));
  client.read_until("\r\n\r\n");
  std::vector<json> events;
  std::string event;
  while ((event = client.read_until("\n\n")).find("[DONE]") == event.npos && !event.empty()) {
    events.push_back(json::parse(event.substr(event.find('{'))));
  }
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.front()["choices"][0]["finish_reason"], nullptr);
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 2);
}

TEST_F(ChatTest, FinalMessageIsContinued) {
  start({"--model", dir_.path().string()});
  const json messages = json::array({{{"role", "romeo"}, {"content", "O,"}}});
  const json got =
      chat({{"messages", messages}, {"continue_final_message", true}}).body["choices"][0];
  EXPECT_EQ(got["message"]["content"], completed("ROMEO: O,")["text"]);
}

TEST_F(ChatTest, TemplateThatFailsIsToldWithItsLine) {
  std::ofstream(dir_ / "chat_template.jinja") << "\n{{ messages[0].content.upper() }}";
  start({"--model", dir_.path().string()});
  const Answer got = chat({{"messages", json::array({{{"role", "nurse"}, {"content", nullptr}}})}});
  EXPECT_TRUE(got.status.starts_with("HTTP/1.1 400"));
  EXPECT_NE(got.body["error"]["message"].get<std::string>().find("line 2"), std::string::npos)
      << got.body;
}

TEST_F(ChatTest, ModelWithoutATemplateSaysSo) {
  std::filesystem::remove(dir_ / "chat_template.jinja");
  std::filesystem::remove(dir_ / "tokenizer_config.json");
  json config = json::parse(std::ifstream(kDemo + "/tokenizer_config.json"));
  config.erase("chat_template");
  std::ofstream(dir_ / "tokenizer_config.json") << config;
  start({"--model", dir_.path().string()});
  const Answer got = chat(json::object());
  EXPECT_TRUE(got.status.starts_with("HTTP/1.1 400"));
  EXPECT_NE(got.body["error"]["message"].get<std::string>().find("no chat template"),
            std::string::npos);
}

TEST_F(ServeTest, SmallEndpointsAnswer) {
  start({"--served-model-name", "verse"});
  EXPECT_EQ(ask(http_get("/health")).body["status"], "ok");
  EXPECT_EQ(ask(http_get("/version")).body["version"], "0.1.0");
  EXPECT_EQ(ask(http_get("/v1/models")).body["data"][0]["id"], "verse");
  const json tokens = ask(http_post("/tokenize", R"({"prompt":"ROMEO:"})")).body;
  EXPECT_EQ(tokens["count"], 5);
  EXPECT_EQ(tokens["max_model_len"], 256);
  const json text = {{"tokens", tokens["tokens"]}};
  EXPECT_EQ(ask(http_post("/detokenize", text.dump())).body["prompt"], "ROMEO:");
}

TEST_F(ServeTest, MetricsCountWhatWasServed) {
  start({"--ranks", "3"});
  complete(with(kGreedy, {{"prompt", {"ROMEO:", "ROMEO:"}}, {"n", 2}}));
  ask(http_get("/nothing/" + std::string(1000, 'x')));
  const std::string own = "{model_name=\"demo\"";
  const auto expect = [&](const std::string& series, const std::string& wanted) {
    EXPECT_EQ(metric(series, wanted), wanted) << series;
  };
  expect("colibri:generation_tokens_total" + own + "}", "96");
  expect("colibri:prompt_tokens_total" + own + "}", "20");
  expect("colibri:request_success_total" + own + ",finished_reason=\"length\"}", "4");
  expect("colibri:time_to_first_token_seconds_count" + own + "}", "4");
  expect("colibri:num_requests_running" + own + "}", "0");
  expect("colibri:ep_rank_tokens_total" + own + ",rank=\"0\"}", "0");
  expect("http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"200\"}", "1");
  expect("http_requests_total{handler=\"none\",method=\"GET\",status=\"404\"}", "1");
  EXPECT_EQ(metric("colibri:expert_tokens_total" + own + ",layer=\"0\",expert=\"0\"}", ""), "");
}

TEST_F(ServeTest, StateTellsOfRanksAndExperts) {
  start({"--ranks", "3"});
  complete(kGreedy);
  json state;
  wait_until([&] { return (state = ask(http_get("/state?experts=1")).body)["steps"] == 24; }, 5);
  EXPECT_EQ(state["steps"], 24);
  EXPECT_EQ(state["running"], 0);
  EXPECT_EQ(state["inter_token_latency"]["count"], 23);
  ASSERT_EQ(state["ranks"].size(), 3u);
  uint64_t on_ranks = 0, chosen = 0;
  for (const json& rank : state["ranks"]) {
    EXPECT_EQ(rank["state"], "alive");
    EXPECT_GT(rank["resident_bytes"], 0);
    on_ranks += rank["tokens"].get<uint64_t>();
  }
  for (const json& layer : state["experts"]) {
    for (const json& expert : layer) chosen += expert.get<uint64_t>();
  }
  EXPECT_EQ(on_ranks, (5u + 23) * 4 * 4);  // tokens that ran, each four of sixteen in four layers
  EXPECT_EQ(on_ranks, chosen);
  EXPECT_FALSE(ask(http_get("/state")).body.contains("experts"));
}

TEST_F(ServeTest, ProfileIsATraceOfEachRankForSoManySteps) {
  const TempDir dir;
  start({"--ranks", "3", "--profile-dir", dir.path().string()});
  const json asked = {{"output_dir", "first/one"}, {"num_steps", 5}};
  const auto post = [&](const std::string& path, const std::string& body) {
    return ask(http_post(path, body));
  };
  EXPECT_EQ(post("/start_profile", asked.dump()).body, asked);
  EXPECT_TRUE(post("/start_profile", "").status.starts_with("HTTP/1.1 409"));
  complete(kGreedy);
  EXPECT_TRUE(post("/stop_profile", "").status.starts_with("HTTP/1.1 409"));
  for (const char* rank : {"0", "1", "2"}) {
    std::ifstream file(dir / (std::string("first/one/trace.rank") + rank + ".json"));
    const json events = json::parse(file)["traceEvents"];
    const auto steps = std::count_if(events.begin(), events.end(), [](const json& event) {
      return event["name"].get<std::string>().starts_with("step[");
    });
    EXPECT_EQ(steps, rank[0] == '0' ? 5 : 0);
    EXPECT_GE(events.size(), 20u);
  }
  const json made = post("/start_profile", "{}").body;
  const json stopped = post("/stop_profile", "").body;
  EXPECT_EQ(stopped["output_dir"], made["output_dir"]);
  EXPECT_EQ(stopped["files"].size(), 3u);
  EXPECT_TRUE(
      post("/start_profile", R"({"output_dir":"../up"})").status.starts_with("HTTP/1.1 400"));
  post("/start_profile", R"({"output_dir":"last"})");
  run_->signal(SIGTERM);
  EXPECT_EQ(run_->wait(60).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir / "last/trace.rank2.json"));
}

TEST_F(ServeTest, ProfilesAreOffUnlessTheirPlaceIsGiven) {
  start();
  EXPECT_TRUE(ask(http_post("/start_profile", "")).status.starts_with("HTTP/1.1 404"));
}

TEST_F(ServeTest, WhatCannotBeIsNamed) {
  start();
  const auto expect = [&](const std::string& request, const std::string& status,
                          const json& param) {
    const Answer got = ask(request);
    EXPECT_TRUE(got.status.starts_with("HTTP/1.1 " + status)) << got.status;
    EXPECT_EQ(got.body["error"]["param"], param) << got.body;
  };
  const auto completion = [](const json& more) {
    return http_post("/v1/completions", with(kGreedy, more).dump());
  };
  expect(http_get("/nothing"), "404", nullptr);
  expect(http_get("/v1/completions"), "405", nullptr);
  expect(http_post("/v1/completions", "{"), "400", nullptr);
  expect(completion({{"model", "other"}}), "404", "model");
  expect(completion({{"logit_bias", {{"99999999", 1}}}}), "400", "logit_bias");
  expect(completion({{"min_tokens", 25}}), "400", "min_tokens");
  expect(completion({{"logprobs", 6}}), "400", "logprobs");
  expect(completion({{"max_tokens", 0}}), "400", "max_tokens");
  expect(completion({{"tempreature", 1}}), "400", "tempreature");
  expect(completion({{"prompt", std::vector<int>(256, 1)}}), "400", "prompt");
  expect(completion({{"prompt", {99999999}}}), "400", "prompt");
  expect(completion({{"prompt", ""}}), "400", "prompt");
}

TEST_F(ServeTest, KeyIsWantedButForHealth) {
  start({"--api-key", "secret"});
  EXPECT_TRUE(ask(http_get("/health")).status.starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(ask(http_get("/v1/models")).status.starts_with("HTTP/1.1 401"));
  EXPECT_TRUE(ask(http_get("/metrics")).status.starts_with("HTTP/1.1 401"));
  const std::string get = "GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ";
  EXPECT_TRUE(ask(get + "secret\r\n\r\n").status.starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(ask(get + "secreT\r\n\r\n").status.starts_with("HTTP/1.1 401"));
  EXPECT_TRUE(ask(get + "\r\n\r\n").status.starts_with("HTTP/1.1 401"));
}

TEST_F(ServeTest, PageWantsNoKeyAndNamesNoOtherServer) {
  start({"--api-key", "secret"});
  HttpClient client(port_);
  client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n"), page = client.read_all();
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n")) << head;
  const auto has = [&](const char* words) { return head.find(words) != std::string::npos; };
  EXPECT_TRUE(has("Content-Type: text/html; charset=utf-8\r\n")) << head;
  EXPECT_TRUE(has("Policy: default-src 'none'; connect-src 'self'; ")) << head;
  EXPECT_TRUE(has("script-src 'sha256-")) << head;
  EXPECT_FALSE(has("unsafe")) << head;
  std::ifstream file(COLIBRI_SOURCE_DIR "/coordinator/page.html", std::ios::binary);
  EXPECT_EQ(page, std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_EQ(page.find("://"), page.npos);
  EXPECT_EQ(ask(http_get("/favicon.ico")).status, "HTTP/1.1 204 No Content");
  EXPECT_TRUE(ask(http_post("/", "")).status.starts_with("HTTP/1.1 405"));
}

TEST_F(ServeTest, ClientThatGoesLeavesOthersAlone) {
  start();
  HttpClient gone(port_);
  gone.send(http_post("/v1/completions", with(kGreedy, {{"max_tokens", 200}}).dump()));
  gone.close();
  EXPECT_EQ(complete(kGreedy).body["usage"]["completion_tokens"], 24);
}

TEST_F(ServeTest, TermLetsRequestsEndAndLeavesWithZero) {
  start({"--ranks", "2"});
  HttpClient client(port_);
  client.send(http_post("/v1/completions",
                        with(kGreedy, {{"max_tokens", 200}, {"ignore_eos", true}}).dump()));
  HttpClient other(port_);
  other.send(http_get("/health"));
  other.read_until("\"status\":\"ok\"");
  run_->signal(SIGTERM);
  EXPECT_TRUE(client.read_until("\"usage\"").ends_with("\"usage\""));
  const CommandResult result = run_->wait(60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(ServeTest, PortInUseIsNamed) {
  start();
  const CommandResult result =
      run_command({kProgram, "serve", "--model", kDemo, "--port", std::to_string(port_)}, 60);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("port " + std::to_string(port_)), std::string::npos) << result.err;
}

}  // namespace
}  // namespace colibri
