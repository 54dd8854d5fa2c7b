// Promise 1 on one GPU, as the program keeps it with --device cuda: how a prompt is cut, what runs
// beside it and how rows travel change no bit. Ranks are threads that share the GPU.
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>

#include "launch/cuda_backend.h"
#include "tests/support/local_device_link.h"
#include "tests/support/run_model.h"

namespace colibri {
namespace {

// Where COLIBRI_SOURCE_DIR is relative, the program runs in the folder that holds configs/.
struct Subject {
  const char* model;
  int vocab_size, prompt;
  std::vector<int> mates;
};
const Subject kDemo{COLIBRI_SOURCE_DIR "/configs/models/demo",
                    1536,
                    130,  // three pages of the cache and a part
                    {1, 5, 40, 3}};
const Subject kSmall{COLIBRI_SOURCE_DIR "/tests/data/models/deepseek_v3_fp8", 96, 6, {1, 2, 1, 2}};

// NCCL has steps of exact counts (longer than 64 tokens) and of fixed size, these with graphs.
enum class Exchange {
  kHostRows,
  kSelfExchange,
  kNccl,
  kNcclOverflowing,
  kDeviceRows,
  kFixedCapacity,
  kOverflowing
};

struct Point {
  int ranks = 1;
  int64_t chunk = 512;
  bool has_mates = false;
  Exchange exchange = Exchange::kHostRows;
  int own_experts = 0;  // of rank 0, where others hold the rest
};

struct Form {
  const char* weights;
  const char* activations;
  const char* kv_dtype;
};

std::string name_of(const Point& p) {
  const char* const names[] = {"rows through the host",
                               "self-exchange",
                               "NCCL",
                               "NCCL whose fixed messages overflow",
                               "device rows",
                               "device rows in fixed messages",
                               "fixed messages that overflow"};
  return std::to_string(p.ranks) + " ranks, chunk " + std::to_string(p.chunk) +
         (p.has_mates ? ", with mates, " : ", ") + names[static_cast<size_t>(p.exchange)] +
         (p.own_experts > 0 ? ", own experts on rank 0" : "");
}

std::vector<int32_t> prompt_of(const Subject& subject, int length, int step) {
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back((i * i * 7 + i * step) % subject.vocab_size);
  return ids;
}

ChosenDevice first_gpu() {
  ChosenDevice chosen;
  chosen.backend = &open_cuda_backend();
  const GpuProbe probe = chosen.backend->probe_gpus();
  require_gpu(probe);
  chosen.gpu = probe.gpus.front();
  return chosen;
}

ModelOutput run_at(const Subject& subject, const Form& form, const Point& point) {
  ModelRun run;
  run.device = first_gpu();
  run.device.gpu_of_rank.assign(static_cast<size_t>(point.ranks), run.device.gpu);
  run.options.model = subject.model;
  run.device.over_nccl =
      point.exchange == Exchange::kNccl || point.exchange == Exchange::kNcclOverflowing;
  run.options.transport = run.device.over_nccl ? "nccl" : "local";
  run.options.ranks = point.ranks;
  run.options.threads = 1;
  run.options.chunk = point.chunk;
  run.options.weights = form.weights;
  run.options.activations = form.activations;
  run.options.kv_dtype = form.kv_dtype;
  run.options.coordinator_experts = point.own_experts;
  run.options.self_exchange =
      point.exchange == Exchange::kSelfExchange || (run.device.over_nccl && point.ranks == 1);
  if (point.exchange == Exchange::kNcclOverflowing) run.options.fixed_share = 2;
  run.prompts = {prompt_of(subject, subject.prompt, 3)};
  if (point.has_mates) {
    for (const int length : subject.mates) run.prompts.push_back(prompt_of(subject, length, 11));
  }
  run.max_tokens = 3;
  run.score_prompt = true;
  LocalDeviceFabric fabric(point.ranks);
  if (point.exchange >= Exchange::kDeviceRows) {
    run.hooks.make_link = [&](RankContext& context, Device& device) {
      return fabric.link(context.rank, device);
    };
  }
  if (point.exchange == Exchange::kFixedCapacity) run.hooks.fixed_capacity = {64, 32};
  if (point.exchange == Exchange::kOverflowing) run.hooks.fixed_capacity = {64, 2};
  return run_model(run);
}

std::string difference(const ModelOutput& got, const ModelOutput& want) {
  if (got.ids.front() != want.ids.front()) return "ids differ";
  if (got.logits.size() != want.logits.size()) return "numbers of rows differ";
  for (size_t row = 0; row < want.logits.size(); ++row) {
    for (size_t id = 0; id < want.logits[row].size(); ++id) {
      const float a = got.logits[row][id], b = want.logits[row][id];
      if (std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b)) continue;
      return "row " + std::to_string(row) + ", token " + std::to_string(id) + ": " +
             std::to_string(a) + ", want " + std::to_string(b);
    }
  }
  return "";
}

class GpuPromise : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    const GpuProbe probe = open_cuda_backend().probe_gpus();
    if (!probe.problem.empty()) GTEST_SKIP() << probe.problem;
  }
  // Against one rank that takes the prompt at once.
  void expect_equal_bits(const Subject& subject, const std::vector<Point>& points) {
    const ModelOutput want = run_at(subject, GetParam(), {});
    ASSERT_EQ(want.logits.size(), static_cast<size_t>(subject.prompt) + 2);
    for (const Point& point : points) {
      EXPECT_EQ(difference(run_at(subject, GetParam(), point), want), "") << name_of(point);
    }
  }
};

// One rank sends its rows to itself.
TEST_P(GpuPromise, OneRankOfNcclChangesNoBit) {
  if (!open_cuda_backend().has_nccl()) GTEST_SKIP() << "NCCL is not here";
  std::vector<Point> points;
  for (const bool has_mates : {false, true}) {
    for (const int64_t chunk : {1, 7, 64, 512}) {
      points.push_back({1, chunk, has_mates, Exchange::kNccl});
    }
    points.push_back({1, 7, has_mates, Exchange::kNcclOverflowing});
    points.push_back({1, 512, has_mates, Exchange::kNcclOverflowing});
  }
  expect_equal_bits(kDemo, points);
}

TEST_P(GpuPromise, OneRankOfNcclChangesNoBitOfASmallModel) {
  if (!open_cuda_backend().has_nccl()) GTEST_SKIP() << "NCCL is not here";
  expect_equal_bits(kSmall, {{1, 512, false, Exchange::kNccl},
                             {1, 2, true, Exchange::kNccl},
                             {1, 512, true, Exchange::kNcclOverflowing}});
}

TEST_P(GpuPromise, ChunksMatesAndExchangesChangeNoBit) {
  std::vector<Point> points;
  for (const int64_t chunk : {1, 7, 64, 512}) {
    for (const bool has_mates : {false, true}) {
      points.push_back({1, chunk, has_mates, Exchange::kHostRows});
      points.push_back({1, chunk, has_mates, Exchange::kSelfExchange});
      const int ranks = has_mates ? 3 : 2;
      for (const Exchange exchange : {Exchange::kHostRows, Exchange::kDeviceRows,
                                      Exchange::kFixedCapacity, Exchange::kOverflowing}) {
        points.push_back({ranks, chunk, has_mates, exchange});
      }
    }
  }
  expect_equal_bits(kDemo, points);
}

// NCCL_MULTI_RANK_GPU_ENABLE=1 lets ranks share a GPU since NCCL 2.30.
TEST_P(GpuPromise, TwoRanksOfNcclOnOneGpuChangeNoBit) {
  const CudaBackend& backend = open_cuda_backend();
  if (std::string(backend.kind) != "cuda") GTEST_SKIP() << "the stand-in's ranks are processes";
  if (!backend.has_nccl()) GTEST_SKIP() << "NCCL is not here";
  int major = 0, minor = 0;
  std::sscanf(backend.nccl_version().c_str(), "%d.%d", &major, &minor);
  if (major * 100 + minor < 230) GTEST_SKIP() << "want NCCL 2.30, is " << backend.nccl_version();
  if (std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") == nullptr) {
    GTEST_SKIP() << "want NCCL_MULTI_RANK_GPU_ENABLE=1";
  }
  expect_equal_bits(kDemo, {{2, 512, false, Exchange::kNccl}, {2, 7, true, Exchange::kNccl}});
}

// What a simulated GPU can do in seconds.
TEST_P(GpuPromise, AFewOfTheseHoldForASmallModel) {
  expect_equal_bits(kSmall, {{1, 512, false, Exchange::kSelfExchange},
                             {2, 7, false, Exchange::kHostRows},
                             {2, 512, false, Exchange::kHostRows, 3},
                             {2, 4, true, Exchange::kDeviceRows, 2},
                             {3, 2, false, Exchange::kFixedCapacity, 1},
                             {2, 512, true, Exchange::kOverflowing}});
}

INSTANTIATE_TEST_SUITE_P(Forms, GpuPromise,
                         testing::Values(Form{"f32", "f32", "f32"}, Form{"bf16", "bf16", "bf16"},
                                         Form{"q8", "bf16", "bf16"}, Form{"q4", "bf16", "f32"}),
                         [](const auto& test) {
                           return std::string(test.param.weights) + "_rows_" +
                                  test.param.activations + "_cache_" + test.param.kv_dtype;
                         });

}  // namespace
}  // namespace colibri
