#include "coordinator/serving_metrics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "coordinator/expert_ranks.h"
#include "tests/coordinator/forward_rig.h"

namespace colibri {
namespace {

using std::chrono::milliseconds;

class ServingMetricsTest : public testing::Test {
 protected:
  ServingMetricsTest() { metrics_.set_ranks({{.resident_bytes = 5}}, rig_.placement); }

  Engine engine() {
    return Engine(rig_.forward, rig_.cache, 10,
                  {.limits = {.max_tokens = 8, .chunk = 8}, .max_context = 64, .max_batch = 4});
  }
  // Runs until nothing is left; returns the steps it took.
  int run(Engine& engine) {
    int steps = 0;
    while (engine.step()) {
      metrics_.step_done(engine);
      ++steps;
    }
    metrics_.idle(engine);
    return steps;
  }
  static Request request(std::vector<int32_t> prompt, int64_t max_tokens) {
    Request made;
    made.prompt_ids = std::move(prompt);
    made.max_tokens = max_tokens;
    return made;
  }
  // The number behind a name and its labels, as text() shows them; "" when there is none.
  std::string value(const std::string& series, int num_queued = 0) const {
    const std::string text = metrics_.text(num_queued), line = "\n" + series + " ";
    const size_t at = text.find(line);
    if (at == text.npos) return "";
    const size_t begin = at + line.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  ForwardRig rig_{8};
  ServingMetrics metrics_{{.model = "m", .max_context = 64, .shows_experts = true}};
};

TEST_F(ServingMetricsTest, TimesOfAnAnswerAreThoseOfVllm) {
  const auto start = MetricsClock::now() - milliseconds(10000);
  AnswerTimes answer{.arrived = start, .num_prompt_tokens = 7};
  metrics_.begun(answer);
  answer.begun = start + milliseconds(1000);
  for (const int at : {3000, 3500, 5500}) metrics_.token(answer, start + milliseconds(at));
  metrics_.ended(answer, {.reason = "stop", .max_tokens = 20, .n = 2});
  const auto sum = [&](const char* name) {
    return value(std::string("colibri:") + name + "_sum{model_name=\"m\"}");
  };
  EXPECT_EQ(sum("time_to_first_token_seconds"), "3");
  EXPECT_EQ(sum("inter_token_latency_seconds"), "2.5");
  EXPECT_EQ(sum("request_prefill_time_seconds"), "2");
  EXPECT_EQ(sum("request_decode_time_seconds"), "2.5");
  EXPECT_EQ(sum("request_inference_time_seconds"), "4.5");
  EXPECT_EQ(sum("request_prompt_tokens"), "7");
  EXPECT_EQ(sum("request_generation_tokens"), "3");
  EXPECT_EQ(sum("request_params_n"), "2");
  EXPECT_EQ(sum("request_params_max_tokens"), "20");
  EXPECT_EQ(value("colibri:prompt_tokens_total{model_name=\"m\"}"), "7");
  EXPECT_EQ(value("colibri:generation_tokens_total{model_name=\"m\"}"), "3");
  EXPECT_EQ(value("colibri:request_success_total{model_name=\"m\",finished_reason=\"stop\"}"), "1");
  EXPECT_EQ(value("colibri:request_success_total{model_name=\"m\",finished_reason=\"length\"}"),
            "0");
}

TEST_F(ServingMetricsTest, AnswerThatNeverBeganHasNoTimesOfTokens) {
  metrics_.ended({.arrived = MetricsClock::now()}, {.reason = "abort"});
  EXPECT_EQ(value("colibri:request_decode_time_seconds_count{model_name=\"m\"}"), "0");
  EXPECT_EQ(value("colibri:e2e_request_latency_seconds_count{model_name=\"m\"}"), "1");
}

// Two layers of three experts, two a token, one rank.
TEST_F(ServingMetricsTest, StepsAreCountedWithTheirTokensAtEachExpert) {
  Engine e = engine();
  e.add(request({1, 2, 3}, 2));
  const int steps = run(e);
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(value("colibri:engine_steps_total{model_name=\"m\"}"), "2");
  EXPECT_EQ(value("colibri:iteration_tokens_total_sum{model_name=\"m\"}"), "5");
  EXPECT_EQ(value("colibri:ep_dispatch_seconds_count{model_name=\"m\"}"), "2");
  // Four tokens ran.
  EXPECT_EQ(value("colibri:ep_rank_tokens_total{model_name=\"m\",rank=\"0\"}"), "16");
  EXPECT_EQ(value("colibri:ep_balancedness{model_name=\"m\",layer=\"1\"}"), "1");
  int64_t chosen = 0;
  for (const char* expert : {"0", "1", "2"}) {
    chosen += std::stoll(
        value(std::string("colibri:expert_tokens_total{model_name=\"m\",layer=\"1\",expert=\"") +
              expert + "\"}"));
  }
  EXPECT_EQ(chosen, 8);
}

TEST_F(ServingMetricsTest, MovesOfExpertsAndPlansForThemAreCountedByWhatCameOfThem) {
  metrics_.rebalance_looked(RebalanceLook::kLeft, 0.25);
  metrics_.rebalance_looked(RebalanceLook::kBegun, 0.5);
  metrics_.rebalance_looked(RebalanceLook::kFailed, 0);
  metrics_.rebalanced({.error = {}, .num_moved_slots = 3, .read_bytes = 700});
  metrics_.rebalanced({.error = ErrorInfo{ErrorKind::kRankLost, "gone"}, .num_moved_slots = 9});
  const auto of = [&](const std::string& name, const std::string& result) {
    return value("colibri:" + name + "{model_name=\"m\"" +
                 (result.empty() ? "" : ",result=\"" + result + "\"") + "}");
  };
  EXPECT_EQ(of("rebalances_total", "done"), "1");
  EXPECT_EQ(of("rebalances_total", "failed"), "1");
  EXPECT_EQ(of("rebalance_moved_experts_total", ""), "3");
  EXPECT_EQ(of("rebalance_read_bytes_total", ""), "700");
  for (const char* result : {"begun", "left", "failed"}) {
    EXPECT_EQ(of("rebalance_plans_total", result), "1") << result;
  }
  EXPECT_EQ(of("rebalance_predicted_gain_seconds", ""), "0.5");
}

TEST_F(ServingMetricsTest, WhatWaitsForTheEngineWaitsToo) {
  Engine e = engine();
  for (int i = 0; i < 6; ++i) e.add(request({1, 2, 3}, 20));
  e.step();
  metrics_.step_done(e);
  EXPECT_EQ(value("colibri:num_requests_waiting{model_name=\"m\"}", 2),
            std::to_string(e.state().num_waiting + 2));
  EXPECT_EQ(value("colibri:num_requests_running{model_name=\"m\"}"),
            std::to_string(e.state().num_running));
  e.cancel_all();
}

TEST_F(ServingMetricsTest, SumsGoOnWithAnEngineMadeAnew) {
  for (const int num_tokens : {3, 1}) {
    Engine e = engine();
    e.add(request({1, 2, 3}, num_tokens));
    run(e);
  }
  EXPECT_EQ(value("colibri:engine_steps_total{model_name=\"m\"}"), "4");
}

TEST_F(ServingMetricsTest, StateTellsTheSameAsJson) {
  Engine e = engine();
  e.add(request({1, 2, 3}, 2));
  run(e);
  const auto parsed = nlohmann::json::parse(state_body(metrics_.state(3), true));
  EXPECT_EQ(parsed["model"], "m");
  EXPECT_EQ(parsed["steps"], 2);
  EXPECT_EQ(parsed["waiting"], 3);
  const nlohmann::json rank = {
      {"rank", 0}, {"state", "alive"}, {"tokens", 16}, {"resident_bytes", 5}, {"wait_share", 0.0}};
  EXPECT_EQ(parsed["ranks"], nlohmann::json::array({rank}));
  ASSERT_EQ(parsed["experts"].size(), 2u);
  EXPECT_EQ(parsed["experts"][1].size(), 3u);
  EXPECT_EQ(parsed["balancedness"], nlohmann::json({1.0, 1.0}));
  EXPECT_GT(parsed["generation_tokens_per_s"], 0);
}

TEST_F(ServingMetricsTest, StateBeforeTheFirstStepIsWhole) {
  const auto parsed = nlohmann::json::parse(state_body(metrics_.state(0), true));
  EXPECT_EQ(parsed["ranks"][0]["tokens"], 0);
  EXPECT_EQ(parsed["experts"], nlohmann::json::array());
  EXPECT_EQ(parsed["time_to_first_token"]["count"], 0);
}

TEST(RecentValuesTest, OldAndSurplusValuesDoNotCount) {
  using std::chrono::seconds;
  RecentValues values(100, seconds(60));
  const auto start = MetricsClock::now();
  for (int i = 1; i <= 150; ++i) values.add(start + seconds(i), i);
  const Percentiles all = values.percentiles(start + seconds(110));
  EXPECT_EQ(all.count, 100u);
  EXPECT_EQ(all.p50, 100);
  EXPECT_EQ(all.p99, 149);
  EXPECT_EQ(values.percentiles(start + seconds(180)).count, 31u);
  EXPECT_EQ(values.percentiles(start + seconds(300)).count, 0u);
}

TEST_F(ServingMetricsTest, NamesOfModelsAreEscaped) {
  const ServingMetrics odd({.model = "a\"b\\c\nd"});
  EXPECT_NE(odd.text(0).find("engine_steps_total{model_name=\"a\\\"b\\\\c\\nd\"} 0"),
            std::string::npos);
}

TEST_F(ServingMetricsTest, DashboardNamesOnlyWhatThereIs) {
  metrics_.answered({"/metrics", "GET", 200, 0.001});
  const std::string text = metrics_.text(0);
  std::ifstream file(std::string(COLIBRI_SOURCE_DIR) + "/configs/grafana/colibri.json");
  const auto dashboard = nlohmann::json::parse(file);
  const std::regex name("(?:colibri:|http_)[a-z0-9_]+"), suffix("_(bucket|sum|count)$");
  std::set<std::string> named;
  for (const auto& panel : dashboard["panels"]) {
    for (const auto& target : panel.value("targets", nlohmann::json::array())) {
      const std::string expr = target["expr"];
      for (std::sregex_iterator at(expr.begin(), expr.end(), name), end; at != end; ++at) {
        named.insert(at->str());
      }
    }
  }
  EXPECT_GE(named.size(), 25u);
  for (const std::string& one : named) {
    const bool is_there =
        text.find("# TYPE " + one + " ") != text.npos ||
        text.find("# TYPE " + std::regex_replace(one, suffix, "") + " histogram") != text.npos;
    EXPECT_TRUE(is_there) << one;
  }
}

// Of use under the thread sanitizer.
TEST_F(ServingMetricsTest, IsReadWhileTheEngineRuns) {
  std::atomic<bool> is_over = false;
  std::thread reader([&] {
    while (!is_over) {
      metrics_.text(0);
      metrics_.answered({"/metrics", "GET", 200, 0.001});
    }
  });
  Engine e = engine();
  AnswerTimes times;
  for (int i = 0; i < 20; ++i) {
    Request asked = request({1, 2, 3}, 20);
    asked.on_begin = [&] { metrics_.begun(times); };
    asked.on_token = [&](int32_t) {
      metrics_.token(times, MetricsClock::now());
      return true;
    };
    asked.on_end = [&](FinishReason) { metrics_.ended(times, {.reason = "length"}); };
    e.add(std::move(asked));
  }
  run(e);
  is_over = true;
  reader.join();
  EXPECT_EQ(value("colibri:generation_tokens_total{model_name=\"m\"}"), "400");
}

}  // namespace
}  // namespace colibri
