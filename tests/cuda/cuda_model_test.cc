// Whole models on a GPU in one process: the CPU backend's bits wherever products are our own.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "base/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/support/local_device_link.h"
#include "tests/support/run_model.h"

namespace colibri {
namespace {

const std::string kModels = COLIBRI_SOURCE_DIR "/tests/data/models/";

struct Way {
  int ranks = 1;
  int64_t chunk = 512;
  std::string weights = "auto";
  int64_t max_tokens = 3;
  bool on_gpu = false;
  bool device_rows = false;  // from memory to memory, else through the host's
  FixedCapacity fixed = {};  // then
  int mates = 0;             // other prompts in the batch
};

std::vector<int32_t> prompt_of(int length) {
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back((i * i * 7 + i * 3) % 96);
  return ids;
}

ModelOutput run_on(const std::string& model, const Way& way) {
  ModelRun run;
  run.options.model = kModels + model;
  run.options.ranks = way.ranks;
  run.options.threads = 1;
  run.options.chunk = way.chunk;
  run.options.weights = way.weights;
  run.prompts = {prompt_of(70)};
  for (int i = 0; i < way.mates; ++i) run.prompts.push_back(prompt_of(3 + 5 * i));
  run.max_tokens = way.max_tokens;
  run.score_prompt = true;
  LocalDeviceFabric fabric(way.ranks);
  if (way.on_gpu) {
    run.hooks.make_device = [](ThreadPool&) { return make_cuda_device(0); };
    run.hooks.make_ops = [](Isa) { return make_cuda_ops(); };
  }
  if (way.device_rows) {
    run.hooks.make_link = [&](RankContext& context, Device& device) {
      return fabric.link(context.rank, device);
    };
    run.hooks.fixed_capacity = way.fixed;
  }
  return run_model(run);
}

std::string difference(const ModelOutput& got, const ModelOutput& want) {
  if (got.ids != want.ids) return "ids differ";
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

TEST(CudaModelTest, EveryFixtureHasTheCpusBits) {
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (!entry.is_directory()) continue;
    const std::string model = entry.path().filename();
    SCOPED_TRACE(model);
    EXPECT_EQ(difference(run_on(model, {.on_gpu = true}), run_on(model, {})), "");
  }
}

TEST(CudaModelTest, RanksAndChunksChangeNoBit) {
  for (const std::string model : {"qwen2_moe_shared", "deepseek_v3_groups"}) {
    const ModelOutput want = run_on(model, {});
    for (const Way& way : {Way{.ranks = 3, .chunk = 7}, Way{.ranks = 2, .chunk = 64}}) {
      Way on_gpu = way;
      on_gpu.on_gpu = true;
      EXPECT_EQ(difference(run_on(model, on_gpu), want), "") << way.ranks << " ranks";
      on_gpu.device_rows = true;
      EXPECT_EQ(difference(run_on(model, on_gpu), want), "") << way.ranks << " ranks, device rows";
    }
  }
}

// Without graphs, which a link between threads does not have.
TEST(CudaModelTest, StepsOfFixedSizeHaveTheCpusBits) {
  for (const std::string model : {"qwen2_moe_shared", "deepseek_v3_groups"}) {
    Way way{.ranks = 3, .max_tokens = 12, .mates = 5};
    const ModelOutput want = run_on(model, way);
    way.on_gpu = way.device_rows = true;
    way.fixed = {.max_tokens = 16};
    EXPECT_EQ(difference(run_on(model, way), want), "");
    way.fixed.first_share = 4;  // most steps have more results than fit and run again
    EXPECT_EQ(difference(run_on(model, way), want), "") << "with little room for results";
  }
}

TEST(CudaModelTest, QuantisedExpertsHaveTheCpusBits) {
  for (const char* weights : {"q8", "q4"}) {
    const Way way{.ranks = 2, .weights = weights};
    Way on_gpu = way;
    on_gpu.on_gpu = on_gpu.device_rows = true;
    const std::string model = "deepseek_v3_fp8";
    EXPECT_EQ(difference(run_on(model, on_gpu), run_on(model, way)), "") << weights;
  }
}

}  // namespace
}  // namespace colibri
