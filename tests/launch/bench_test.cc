#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launch/bench_gpu_report.h"
#include "launch/bench_report.h"
#include "launch/bench_traffic.h"

namespace colibri {
namespace {

// E 4, K 2, one dense layer and one with experts; every size a different power of ten.
ModelShape small_shape() {
  ModelShape shape;
  shape.num_experts = 4;
  shape.top_k = 2;
  shape.hidden_size = 10;
  shape.expert_width = 10;
  shape.layer_is_moe = {false, true};
  shape.expert_bytes = 1;
  shape.layer_bytes = 100;
  shape.head_bytes = 10'000;
  shape.kv_bytes_per_token = 1'000'000;
  shape.dense_macs = 10'000;
  shape.head_macs = 1'000'000;
  shape.attention_macs = 100'000'000;
  return shape;
}

// Tokens at positions 0 and 2 see 1 + 3 positions; experts 0, 1 and 3 are chosen; one row of
// logits.
TEST(TrafficCounterTest, AStepByHand) {
  const ModelShape shape = small_shape();
  TrafficCounter counter(shape);
  Batch batch;
  batch.ids = {7, 8};
  batch.positions = {0, 2};
  batch.logit_rows = {{.token = 1}};
  const std::vector<int32_t> ids = {0, 1, 1, 3};
  counter.on_routes(1, batch, ids, {});
  EXPECT_EQ(counter.total().bytes, 3u * 1 + 100 + 10'000 + 4 * 1'000'000);
  EXPECT_EQ(counter.total().macs, 4u * 300 + 2 * 10'000 + 1'000'000 + 4 * 100'000'000u);
}

BenchReport small_report() {
  BenchReport report;
  report.facts.model = "m|x\"y";
  report.facts.num_ranks = 2;
  report.limits = {.read_gbps = {9, 10, 30}, .f32_gflops = {100}, .int8_gops = {1000}};
  BenchResult decode{{.is_prefill = false, .tokens = 4, .batch = 2}, {}};
  for (const double seconds : {1.0, 2.0, 4.0}) {
    BenchSample sample;
    sample.seconds = seconds;
    sample.num_tokens = 8;
    sample.num_steps = 4;
    sample.traffic = {10'000'000'000, 25'000'000'000};
    sample.dispatch_bytes = 3'000'000;
    sample.combine_bytes = 5'000'000;
    sample.stage_us[static_cast<size_t>(Stage::kDispatch)] = seconds * 1e6 / 10;
    sample.stage_us[static_cast<size_t>(Stage::kWait)] = seconds * 1e6 / 5;
    sample.wait_us = {0, seconds * 1e6 / 5};
    sample.compute_us = {0, seconds * 1e6 / 2};
    decode.samples.push_back(sample);
  }
  report.results = {decode};
  return report;
}

TEST(BenchReportTest, MediansAndDeviationByHand) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_DOUBLE_EQ(standard_deviation({1, 3}), std::sqrt(2.0));
  EXPECT_EQ(standard_deviation({5}), 0);
}

// 8 tokens in a median of 2 s; 10 GB in 2 s of 10 GB/s; 50 GOP in 2 s of 100; 8 MB over 4 steps.
TEST(BenchReportTest, TablesHoldMediansAndSharesOfTheLimits) {
  const std::string text = report_markdown(small_report());
  EXPECT_NE(
      text.find("| tg4 | 2 | 4.00 ± 3.06 | 500.00 | 5.00 | 50 % | 25.0 | 25 % | 2.000 | 30 % |"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("| tg4 | 2 | 0.0 %, 0.0 % | 50.0 %, 20.0 % |"), std::string::npos) << text;
}

TEST(BenchReportTest, QuantisedExpertsAreHeldAgainstTheIntegerPeak) {
  BenchReport report = small_report();
  report.facts.has_quantised_experts = true;
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_DOUBLE_EQ(json.at("results").at(0).at("share_of_peak").get<double>(), 0.025);
}

TEST(BenchReportTest, JsonHoldsEverySampleAndTheFacts) {
  const auto json = nlohmann::json::parse(report_json(small_report()));
  EXPECT_EQ(json.at("facts").at("model"), "m|x\"y");
  EXPECT_EQ(json.at("limits").at("read_gb_per_s").size(), 3u);
  const auto& result = json.at("results").at(0);
  EXPECT_EQ(result.at("kind"), "decode");
  EXPECT_EQ(result.at("samples").size(), 3u);
  EXPECT_EQ(result.at("samples").at(2).at("tokens_per_s"), 2.0);
  EXPECT_EQ(result.at("samples").at(0).at("stage_us").at("wait for ranks"), 2e5);
}

TEST(BenchReportTest, WithoutProbesThereIsNoShare) {
  BenchReport report = small_report();
  report.limits = {};
  EXPECT_NE(report_markdown(report).find("limits were not measured"), std::string::npos);
  EXPECT_TRUE(
      nlohmann::json::parse(report_json(report)).at("results").at(0).at("share_of_read").is_null());
}

TEST(BenchReportTest, CsvHasALineATestUnderItsHead) {
  const std::string text = report_csv(small_report());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.substr(text.find('\n') + 1),
            "tg4,2,3,4.0000,3.0551,500.00000,5.0000,25.000,2.000000,0.30000,10.000,100.00\n");
}

// Experts took 60 of 80 ms in a run of 4 steps: 3 GB and 6 TFLOP, 15 ms a step of 20. A step lasts
// a median of 500 ms, of which the host waits for 300. Of 10 fixed-size steps 1 ran again.
BenchReport gpu_report() {
  BenchReport report = small_report();
  report.facts.is_on_gpu = true;
  report.limits = {};
  report.limits.gpu.copy_gbps = {100};
  report.limits.gpu.product_tflops = {200};
  BenchResult& decode = report.results[0];
  for (BenchSample& sample : decode.samples) sample.waited_us = sample.seconds * 6e5;
  decode.samples[1].fixed = {10, 1};
  decode.profile = GpuProfile{.num_steps = 4};
  decode.profile->kinds[static_cast<size_t>(OpGroup::kExperts)] = {8, 60'000, 3e9, 6e12};
  decode.profile->kinds[static_cast<size_t>(OpGroup::kRows)] = {40, 20'000, 0, 0};
  return report;
}

TEST(GpuReportTest, TablesByHand) {
  const std::string text = report_markdown(gpu_report());
  for (const char* part : {"| tg4 | 2 | 200.000 | 20.000 | 4 % | 10 | 10.00 % |",
                           "| tg4 | 2 | experts | 2.0 | 15.000 | 75 % | 50.0 | 50 % | 100.000 | 50 "
                           "% |",
                           "| tg4 | 2 | 4.00 ± 3.06 | 500.00 | 5.00 | 5 % |"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST(GpuReportTest, JsonAndCsvHaveTheSame) {
  const auto json = nlohmann::json::parse(report_json(gpu_report()));
  const auto& gpu = json.at("results").at(0).at("gpu");
  EXPECT_DOUBLE_EQ(gpu.at("rerun_share").get<double>(), 0.1);
  EXPECT_DOUBLE_EQ(gpu.at("kernels").at("experts").at("gb_per_s").get<double>(), 50);
  EXPECT_FALSE(gpu.at("kernels").contains("attention"));
  const std::string text = report_csv(gpu_report());
  EXPECT_NE(text.find(",200.00000,20.00000,0.04000,10,0.10000,100.000,"), std::string::npos)
      << text;
}

TEST(GpuReportTest, WithoutAGpuNothingIsAdded) {
  EXPECT_EQ(report_markdown(small_report()).find("kernel"), std::string::npos);
  EXPECT_FALSE(
      nlohmann::json::parse(report_json(small_report())).at("results").at(0).contains("gpu"));
}

TEST(BenchCasesTest, PrefillThenDecodeForEveryBatchAndZeroLeavesOneOut) {
  BenchOptions options;
  options.prompt_tokens = {0, 16};
  options.new_tokens = {8};
  options.batches = {1, 3};
  std::string names;
  for (const BenchCase& what : bench_cases(options)) {
    names += what.name() + "x" + std::to_string(what.batch) + " ";
  }
  EXPECT_EQ(names, "pp16x1 pp16x3 tg8x1 tg8x3 ");
  const SessionNeeds needs = bench_needs(bench_cases(options));
  EXPECT_EQ(needs.max_context, 17);
  EXPECT_EQ(needs.num_sequences, 3);
}

}  // namespace
}  // namespace colibri
