// What `bench --serve` is made of: figures by hand, and answers of servers that misbehave.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "coordinator/http_server.h"
#include "launch/serving_answer.h"
#include "launch/serving_client.h"
#include "launch/serving_load.h"
#include "launch/serving_report.h"
#include "launch/serving_stats.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

using nlohmann::json;

TEST(ServingStatsTest, QuantileLiesBetweenTheNearestValues) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({7}, 0.99), 7);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({10, 20, 30, 40, 50}, 0.99), 49.6);  // numpy.percentile(..., 99)
  EXPECT_EQ(quantile({10, 20}, 1), 20);
}

// Two requests in two seconds; the second one has a single token, so no time per token after it.
TEST(ServingStatsTest, FiguresByHand) {
  const ServedRequest first{.error = "",
                            .prompt_tokens = 10,
                            .new_tokens = 5,
                            .has_usage = true,
                            .first_s = 0.1,
                            .last_s = 0.5,
                            .gaps_s = {0.1, 0.3}};
  const ServedRequest second{.error = "",
                             .prompt_tokens = 20,
                             .new_tokens = 1,
                             .has_usage = false,
                             .first_s = 0.3,
                             .last_s = 0.3,
                             .gaps_s = {}};
  ServedRequest failed;
  failed.error = "HTTP 500";
  failed.new_tokens = 99;
  const ServingFigures f = figures_of({first, failed, second, failed}, 2);
  EXPECT_EQ(f.num_served, 2);
  EXPECT_EQ(f.num_failed, 2);
  EXPECT_EQ(f.num_without_usage, 1);
  EXPECT_EQ(f.errors.at("HTTP 500"), 2);
  EXPECT_EQ(f.requests_per_s, 1);
  EXPECT_EQ(f.new_tokens_per_s, 3);
  EXPECT_EQ(f.tokens_per_s, 18);
  EXPECT_DOUBLE_EQ(f.ttft_ms.mean, 200);
  EXPECT_DOUBLE_EQ(f.ttft_ms.deviation, 100);
  EXPECT_DOUBLE_EQ(f.ttft_ms.p99, 298);
  EXPECT_EQ(f.tpot_ms.count, 1u);
  EXPECT_DOUBLE_EQ(f.tpot_ms.mean, 100);
  EXPECT_DOUBLE_EQ(f.itl_ms.median, 200);
  EXPECT_DOUBLE_EQ(f.e2e_ms.mean, 400);
}

TEST(ServingLoadTest, SameSeedSamePromptsWithinTheirLengths) {
  const RandomLengths lengths{.prompt_tokens = 10, .new_tokens = 4, .range_ratio = 0.5};
  const auto prompts = random_prompts(lengths, 200, 3, {7, 8, 9});
  size_t shortest = 1000, longest = 0;
  for (const LoadPrompt& prompt : prompts) {
    shortest = std::min(shortest, prompt.ids.size());
    longest = std::max(longest, prompt.ids.size());
    EXPECT_TRUE(prompt.max_tokens >= 2 && prompt.max_tokens <= 6) << prompt.max_tokens;
  }
  EXPECT_EQ(shortest, 5u);
  EXPECT_EQ(longest, 15u);
  EXPECT_EQ(random_prompts(lengths, 200, 3, {7, 8, 9})[199].ids, prompts[199].ids);
  EXPECT_NE(random_prompts(lengths, 200, 4, {7, 8, 9})[199].ids, prompts[199].ids);
}

TEST(ServingLoadTest, ArrivalsComeAtTheirRate) {
  const auto times = arrival_times(10001, 50, 1);
  EXPECT_EQ(times[0], 0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back(), 200, 10);  // five standard deviations
  EXPECT_EQ(arrival_times(3, std::numeric_limits<double>::infinity(), 1),
            std::vector<double>(3, 0));
}

TEST(ServingLoadTest, DatasetsOfBothForms) {
  const auto lines =
      parse_dataset("{\"prompt\":\"a\",\"max_tokens\":3}\n\n{\"prompt\":[1,2]}", "F", 0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "a");
  EXPECT_EQ(lines[0].max_tokens, 3);
  EXPECT_EQ(lines[1].ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(lines[1].max_tokens, 128);
  const auto talks = parse_dataset(
      R"([{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"12345678"}]},
          {"conversations":[{"from":"human","value":"alone"}]}, 7])",
      "F", 0);
  ASSERT_EQ(talks.size(), 1u);
  EXPECT_EQ(talks[0].text, "q");
  EXPECT_EQ(talks[0].max_tokens, 2);
  EXPECT_ERROR(parse_dataset("{\"prompt\":\"a\"}\n{}", "F", 0), kInput, "F line 2");
  EXPECT_ERROR(parse_dataset("{\"prompt\":\"a\",\"max_tokens\":0}", "F", 0), kInput, "max_tokens");
  EXPECT_ERROR(parse_dataset("[]", "F", 0), kInput, "no prompt");
  EXPECT_ERROR(parse_dataset("[" + std::string(100000, '['), "F", 0), kInput, "JSON list");
}

std::string piece(const std::string& text) {
  return "data: {\"choices\":[{\"index\":0,\"text\":\"" + text + "\",\"finish_reason\":null}]}\n\n";
}

TEST(ServingAnswerTest, TimesArePiecesWithText) {
  ServingAnswer answer;
  answer.on_status(200);
  answer.on_body(
      1,
      "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n: "
      "ping\n");
  answer.on_body(2, piece("a").substr(0, 20));
  answer.on_body(3, piece("a").substr(20) + piece(""));
  answer.on_body(7, piece("b"));
  answer.on_body(8, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n");
  answer.on_body(
      9, "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":6}}\n\n");
  answer.on_body(10, "data: [DONE]\n\n");
  const ServedRequest got = answer.end("reset after the end");
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.first_s, 3);
  EXPECT_EQ(got.gaps_s, std::vector<double>{4});
  EXPECT_EQ(got.last_s, 8);
  EXPECT_TRUE(got.has_usage);
  EXPECT_EQ(got.prompt_tokens, 4);
  EXPECT_EQ(got.new_tokens, 6);
}

TEST(ServingAnswerTest, WithoutUsagePiecesCount) {
  ServingAnswer answer;
  answer.on_status(200);
  answer.on_body(1, piece("a") + piece("b") + "data: [DONE]\n\n");
  const ServedRequest got = answer.end("");
  EXPECT_FALSE(got.has_usage);
  EXPECT_EQ(got.new_tokens, 2);
}

TEST(ServingReportTest, BlockHasTheLinesThatOthersPrint) {
  ServingRun run{.request_rate = 2.5, .max_concurrency = 3, .num_prompts = 4, .figures = {}};
  run.figures.num_served = 4;
  run.figures.ttft_ms = spread_of({1, 2, 3});
  run.figures.errors["HTTP 500"] = 1;
  const std::string block = serving_block(run);
  EXPECT_TRUE(block.starts_with("============ Serving Benchmark Result ============\n")) << block;
  EXPECT_NE(block.find("Successful requests:                     4         \n"), block.npos)
      << block;
  EXPECT_NE(block.find("Median TTFT (ms):                        2.00      \n"), block.npos)
      << block;
  EXPECT_NE(block.find("P99 E2EL (ms):                           -         \n"), block.npos)
      << block;
  EXPECT_NE(block.find("failed 1: HTTP 500\n"), block.npos) << block;
}

TEST(ServingReportTest, JsonAndPictureHaveEveryLoad) {
  std::vector<ServingRun> runs(2);
  runs[0].request_rate = 1.5;
  runs[1].request_rate = std::numeric_limits<double>::infinity();
  for (ServingRun& run : runs) run.figures.ttft_ms = spread_of({100, 200});
  ServingFacts facts;
  facts.model = "a<b&\"c\"";
  const json document = json::parse(serving_json(facts, runs));
  EXPECT_EQ(document["runs"][0]["request_rate"], 1.5);
  EXPECT_EQ(document["runs"][1]["request_rate"], "inf");
  EXPECT_EQ(document["runs"][1]["median_ttft_ms"], 150);
  EXPECT_EQ(document["runs"][1]["mean_itl_ms"], nullptr);
  const std::string svg = serving_svg(facts, runs);
  EXPECT_NE(svg.find("a&lt;b&amp;&quot;c&quot;"), svg.npos);
  EXPECT_NE(svg.find(">1.5</text>"), svg.npos);
  EXPECT_NE(svg.find(">inf</text>"), svg.npos);
  EXPECT_NE(svg.find("<title>150.00 ms</title>"), svg.npos);
  EXPECT_EQ(svg.find("http", svg.find("www.w3.org")), svg.npos) << "an outside reference";
}

TEST(ServingClientTest, UrlsAreReadInTheirParts) {
  const ServerAddress plain = parse_server_url("http://h:81/v1/");
  EXPECT_EQ(plain.host + "|" + plain.port + "|" + plain.path, "h|81|");
  const ServerAddress six = parse_server_url("http://[::1]/p");
  EXPECT_EQ(six.host + "|" + six.port + "|" + six.path, "::1|80|/p");
  EXPECT_ERROR(parse_server_url("https://h"), kUnsupported, "TLS");
  for (const char* bad : {"http://", "http://h:x", "http://h:99999", "http://[::1", "http://a b"}) {
    EXPECT_ERROR(parse_server_url(bad), kInput, "--serve");
  }
}

// A server that answers as the test says.
class BadServerTest : public testing::Test {
 protected:
  using Behave = std::function<void(const std::shared_ptr<HttpReply>&)>;
  std::string error_of(const Behave& behave, double timeout_s = 20) {
    HttpOptions options;
    options.port = 0;
    std::vector<std::shared_ptr<HttpReply>> kept;
    const auto server = make_http_server(options, [&](HttpRequest, auto reply) {
      behave(reply);
      if (keeps_) kept.push_back(std::move(reply));
    });
    const auto client = make_serving_client({"127.0.0.1", std::to_string(server->port()), ""});
    ServingAnswer answer;
    std::string error = "on_end was not called";
    client->send(
        {.method = "POST", .path = "/", .body = "{}", .api_key = "", .timeout_s = timeout_s},
        {.on_status = [&](int status) { answer.on_status(status); },
         .on_body = [&](std::string_view bytes) { return answer.on_body(0, bytes); },
         .on_end = [&](const std::string& why) { error = answer.end(why).error; }});
    client->run();
    return error;
  }
  static Behave events(const std::string& text) {
    return [text](const auto& reply) {
      reply->begin(200, {{"Content-Type", "text/event-stream"}});
      reply->write(text);
      reply->end();
    };
  }

  bool keeps_ = false;  // replies: else one without an answer closes its connection
};

TEST_F(BadServerTest, WholeAnswerIsNone) {
  EXPECT_EQ(error_of(events(piece("a") + "data: [DONE]\n\n")), "");
}

TEST_F(BadServerTest, ClosingEarlyIsTold) {
  EXPECT_EQ(error_of([](const auto&) {}), "the server closed without an answer");
  EXPECT_EQ(error_of([](const auto& reply) {
              reply->begin(200, {});
              reply->write(piece("a"));
            }),
            "the server closed amid its answer");
  EXPECT_EQ(error_of(events(piece("a"))), "the stream ended without a finish_reason or [DONE]");
  EXPECT_EQ(error_of(events("")), "the answer is no stream of events");
}

TEST_F(BadServerTest, ErrorsAreToldWithTheirMessage) {
  EXPECT_EQ(error_of([](const auto& reply) {
              reply->send(500, {}, R"({"error":{"message":"out of\nroom"}})");
            }),
            "HTTP 500: out of room");
  EXPECT_EQ(error_of([](const auto& reply) { reply->send(502, {}, "<html>"); }),
            "HTTP 502: <html>");
  EXPECT_EQ(error_of(events(piece("a") + "data: {\"error\":{\"message\":\"lost\"}}\n\n")),
            "error in the stream: lost");
}

TEST_F(BadServerTest, BrokenEventsAreTold) {
  EXPECT_EQ(error_of(events("data: {\"choices\":[\n\n")),
            "an event of the stream is no JSON object");
  EXPECT_EQ(error_of(events("data: " + std::string(100000, '[') + "\n\n")),
            "an event of the stream is no JSON object");
  EXPECT_EQ(error_of(events("data: " + std::string(3 << 20, 'x'))),
            "an event of the stream is longer than 1 MiB");
  EXPECT_EQ(error_of(events("data: {\"choices\":[7],\"usage\":[]}\n\ndata: [DONE]\n\n")), "");
}

TEST_F(BadServerTest, SilenceEndsAtTheTimeout) {
  keeps_ = true;
  EXPECT_EQ(error_of([](const auto&) {}, 0.1), "timeout while waiting for an answer");
  EXPECT_EQ(error_of(
                [](const auto& reply) {
                  reply->begin(200, {});
                  reply->write(piece("a"));
                },
                0.1),
            "timeout while reading the answer");
}

}  // namespace
}  // namespace colibri
