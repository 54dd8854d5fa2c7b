// Throughput that others have published for whole decode steps, beside what the simulator says.
// Reported, not fitted: no constant was chosen by these rows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "launch/plan_input.h"
#include "topology/cluster_file.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

struct PublishedStep {
  const char* what;
  const char* source;
  const char* shape;
  const char *weights, *dense_weights;
  const char* machine;
  int num_ranks = 0;
  double batch_a_gpu = 0, context = 0;
  double tokens_a_gpu = 0;  // published, a second
  const char* note;         // what had to be assumed
};

const PublishedStep kSteps[] = {
    {"DeepSeek-V3 in production, EP144, H800", "open-infra-index", "deepseek-v3", "q8", "q8",
     "18x8xh800-400g", 144, 88, 4989, 1850,
     "batch from 1850 tokens/s at 21 a user; published with imbalance and scheduling"},
    {"DeepSeek-V3 profile, EP128, H800", "deepseek-ai/profile-data", "deepseek-v3", "q8", "q8",
     "18x8xh800-400g", 128, 128, 4096, 2324, "two micro-batches overlap"},
    {"SGLang, DeepSeek-V3, EP72, H100", "LMSYS, 96 H100", "deepseek-v3", "q8", "q8",
     "12x8xh100-400g", 72, 256, 2048, 2785, "two micro-batches overlap, 32 replicas"},
    {"SGLang, Kimi K2, EP96, H200", "LMSYS, Kimi K2 on 128 H200", "kimi-k2", "q8", "q8",
     "12x8xh200", 96, 480, 2000, 3000, "context not told: 2000; 96 replicas"},
    {"SGLang, DeepSeek-V3, EP48, GB200, NVFP4", "LMSYS, GB200 NVL72, part 2", "deepseek-v3", "q4",
     "q8", "gb200-nvl72", 48, 1408, 2000, 13386, "q4 computes as fast as FP8 here, NVFP4 faster"},
    {"SGLang, DeepSeek-V3, EP48, GB200, FP8", "LMSYS, GB200 NVL72, part 2", "deepseek-v3", "q8",
     "bf16", "gb200-nvl72", 48, 1408, 2000, 9087, "batch not told: that of the NVFP4 run"},
};

Cluster machine_of(const std::string& name) {
  if (name != "12x8xh200") return find_cluster(name);
  return parse_cluster(
      "colibri_machine = 1\nname = \"12x8xh200\"\n[[node]]\ncount = 12\ncpu = \"cpu-server\"\n"
      "packages = 2\ncores = 48\nmemory_gb = 1024\npackage_link = \"upi-spr\"\ngpu = \"h200\"\n"
      "gpus = 8\ngpus_per_switch = 2\npcie = \"pcie5-x16\"\nnvlink = \"nvlink4\"\n"
      "nvlink_form = \"switch\"\nnics = 8\nnic = \"ib-400g\"\n",
      "test");
}

struct Prediction {
  SimulatedStep step;
  double tokens_a_gpu = 0;
};

Prediction predict(const PublishedStep& row) {
  CommonOptions options;
  options.shape = row.shape;
  options.weights = row.weights;
  options.dense_weights = row.dense_weights;
  const ModelShape shape = shape_of(options, true);
  const RankMap ranks = ranks_on(machine_of(row.machine), row.num_ranks, true, "all");
  const Placement placement = spread_placement(shape, ranks, false);
  const SimulatorInput input{.shape = &shape,
                             .ranks = &ranks,
                             .placement = &placement,
                             .size = decode_size(row.batch_a_gpu, row.context)};
  const SimulatedStep step = simulate_step(input);
  return {step, step.tokens_per_s(input) / row.num_ranks};
}

void print_header() {
  std::printf(
      "\n| system | source | batch a GPU | context | published tokens/s a GPU | predicted | error "
      "| ms a step | attention | dispatch | experts | combine | note |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n");
}

void print_row(const PublishedStep& row, const Prediction& p) {
  const auto share = [&](double us) { return 100 * us / p.step.step_us; };
  std::printf(
      "| %s | %s | %.0f | %.0f | %.0f | %.0f | %+.0f %% | %.1f | %.0f %% | %.0f %% | %.0f "
      "%% | %.0f %% | %s |\n",
      row.what, row.source, row.batch_a_gpu, row.context, row.tokens_a_gpu, p.tokens_a_gpu,
      100 * (p.tokens_a_gpu / row.tokens_a_gpu - 1), p.step.step_us / 1e3,
      share(p.step.attention_us), share(p.step.dispatch_us),
      share(p.step.own_us + p.step.wait_us + p.step.experts_us), share(p.step.combine_us),
      row.note);
}

// COLIBRI_PRINT_TABLES=1 shows the table of docs/placement.md. The bound only finds what is broken.
TEST(PublishedStepsTest, PredictionsAreOfTheRightSize) {
  const bool prints = std::getenv("COLIBRI_PRINT_TABLES") != nullptr;
  if (prints) print_header();
  for (const PublishedStep& row : kSteps) {
    const Prediction p = predict(row);
    if (prints) print_row(row, p);
    EXPECT_GT(p.tokens_a_gpu, row.tokens_a_gpu / 2.5) << row.what;
    EXPECT_LT(p.tokens_a_gpu, row.tokens_a_gpu * 2.5) << row.what;
  }
}

}  // namespace
}  // namespace colibri
