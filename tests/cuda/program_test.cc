// `bench`, `generate` and `doctor` on GPUs as real processes. Numbers of the simulated device mean
// nothing: these tests look for what is there, and its form.
#include "tests/multi/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace colibri {
namespace {

const Words kTwoGpus = {"COLIBRI_SIM_DEVICES=2", "COLIBRI_SIM_RACES=0", "COLIBRI_SIM_COUNTERS=0"};

std::string bench(const std::string& format, const Words& more) {
  const CommandResult result =
      run_command(joined({kProgram, "bench", "--device", "cuda", "--shape", "demo", "--layers", "2",
                          "-p", "8", "-n", "3", "-r", "2", "--format", format},
                         more),
                  120, kTwoGpus);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

nlohmann::json bench_json(const Words& more) {
  return nlohmann::json::parse(bench("json", more), nullptr, false);
}

TEST(GpuBenchTest, JsonHasLimitsHostTimeAndEveryKindOfKernel) {
  const auto json = bench_json({});
  for (const char* limit :
       {"copy_gb_per_s", "to_gpu_gb_per_s", "from_gpu_gb_per_s", "product_tflop_per_s"}) {
    EXPECT_EQ(json.at("limits").at("gpu").at(limit).size(), 2u) << limit;
    EXPECT_GT(json.at("limits").at("gpu").at(limit).at(0), 0) << limit;
  }
  ASSERT_EQ(json.at("results").size(), 2u);
  for (const auto& result : json.at("results")) {
    const auto& gpu = result.at("gpu");
    EXPECT_GT(gpu.at("host_ms_per_step"), 0);
    EXPECT_LE(gpu.at("host_ms_per_step"), result.at("ms_per_step"));
    EXPECT_GT(gpu.at("kernel_ms_per_step"), 0);
    double share = 0;
    for (const char* kind : {"dense products", "experts", "attention", "exchange"}) {
      EXPECT_GT(gpu.at("kernels").at(kind).at("gb_per_s"), 0) << kind;
      EXPECT_GT(gpu.at("kernels").at(kind).at("calls_per_step"), 0) << kind;
    }
    for (const auto& kind : gpu.at("kernels")) share += kind.at("share").get<double>();
    EXPECT_NEAR(share, 1, 1e-6);
  }
}

TEST(GpuBenchTest, TablesNameLimitsAndKinds) {
  const std::string text = bench("md", {});
  for (const char* part :
       {"the GPU's limits, measured between the runs: copy ", "| host ms/step | kernel ms/step |",
        "| pp8 | 1 | experts |", "| tg3 | 1 | attention |"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST(GpuBenchTest, CsvLinesHaveAsManyColumnsAsTheirHead) {
  std::istringstream text(bench("csv", {"--no-probes"}));
  std::string head, line;
  std::getline(text, head);
  EXPECT_NE(head.find(",peak_gop_per_s,host_ms_per_step,"), std::string::npos) << head;
  int num_lines = 0;
  while (std::getline(text, line)) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(head.begin(), head.end(), ','));
    ++num_lines;
  }
  EXPECT_EQ(num_lines, 2);
}

// Decode steps have messages of fixed size; what travels is counted though graphs replay them, and
// experts may be chosen by another rule.
TEST(GpuBenchTest, OverNcclFixedStepsAndBytesAreCounted) {
  const auto json = bench_json({"--ranks", "2", "--no-probes", "--routing", "zipf:0.9"});
  const auto& decode = json.at("results").at(1);
  EXPECT_EQ(decode.at("gpu").at("fixed_steps").get<double>() -
                decode.at("gpu").at("reruns").get<double>(),
            2 * 3);
  EXPECT_GT(decode.at("gpu").at("rerun_share"), -1);
  EXPECT_GT(decode.at("samples").at(1).at("dispatch_bytes"), 0);
  EXPECT_GT(decode.at("samples").at(1).at("combine_bytes"), 0);
  EXPECT_FALSE(json.at("limits").at("gpu").is_null());
}

TEST(GpuGenerateTest, SummaryOverNcclHasBytesAndStepsThatRanAgain) {
  const CommandResult result =
      run_command(generate_demo({"--prompt-ids", "1,2,3", "--max-tokens", "4", "--ids", "--device",
                                 "cuda", "--ranks", "2"}),
                  120, kTwoGpus);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"  dispatch ", "steps with messages of fixed size, ", " run again"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " in\n" << result.err;
  }
}

TEST(GpuDoctorTest, TwoGpusExchangeOverNccl) {
  const CommandResult result = run_command({kProgram, "doctor"}, 120, kTwoGpus);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const size_t at = result.out.find("GPUs of ranks 0 and 1: ");
  ASSERT_NE(at, std::string::npos) << result.out << result.err;
  EXPECT_NE(result.out.find("GB/s each way", at), std::string::npos) << result.out;
}

TEST(GpuDoctorTest, OneGpuUnderTwoNumbersExchangesNothing) {
  const CommandResult result =
      run_command({kProgram, "doctor"}, 120, {"COLIBRI_SIM_DEVICES=2", "COLIBRI_SIM_UUIDS=a,a"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find("GPUs of ranks"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("there and back in"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace colibri
