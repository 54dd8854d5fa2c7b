// Tokens of a step that a GPU computes: picked there, by the CPU's rules, and all that the host
// gets of the logits unless somebody reads them.
#include <gtest/gtest.h>

#include <cmath>

#include "base/cuda_device.h"
#include "coordinator/logit_rules.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/coordinator/token_picker_rig.h"
#include "tests/cuda/cuda_rig.h"
#include "tests/cuda/stream_link.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_model.h"

namespace colibri {
namespace {

using colibri_sim::Order;
using colibri_sim::OrderEntry;

// ---- The picker alone ---------------------------------------------------------------------------

constexpr int64_t kVocab = 1000;
constexpr uint64_t kRowBytes = kVocab * sizeof(float), kIdBytes = sizeof(int32_t);

class CudaTokenPicker : public testing::Test {
 protected:
  CudaRig cuda_;
  TokenPickerRig rig_{{cuda_.device.get(), cuda_.stream.get(), cuda_.cuda.get(), &cuda_.pool},
                      kVocab};

  uint64_t bytes_to_host(const std::vector<LogitRow>& rows) {
    colibri_sim::reset_counters();
    rig_.run(rows);
    return colibri_sim::bytes_copied_to_host();
  }
};

// Of 256 tokens at most the GPU draws; the host does with the others.
TEST_F(CudaTokenPicker, EveryRowHasTheSamplersToken) {
  for (uint64_t position = 0; position < 3; ++position) {
    for (const int top_k : {1, 256, 257, 0}) {
      const std::vector<LogitRow> rows = {drawn(top_k, position, kVocab), picked({}),
                                          drawn(20, position, kVocab)};
      const auto got = rig_.run(rows);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(got[i].id, sample(rig_.row(i), *rows[i].pick)) << i << ", top_k " << top_k;
      }
    }
  }
}

TEST_F(CudaTokenPicker, HostGetsIdsAndTheRowsThatItReads) {
  const LogitRow greedy = picked({}), shown{.is_shown = true};
  EXPECT_EQ(bytes_to_host({greedy, greedy, drawn(20, 1, kVocab)}), 3 * kIdBytes);
  EXPECT_EQ(bytes_to_host({greedy, shown, greedy}), 3 * kIdBytes + kRowBytes);
  EXPECT_EQ(bytes_to_host({greedy, drawn(0, 1, kVocab)}), 2 * kIdBytes + kRowBytes);
  EXPECT_EQ(bytes_to_host({shown, shown}), 2 * kRowBytes);
  EXPECT_EQ(bytes_to_host({drawn(0, 1, kVocab)}), kRowBytes);
  const LogitRules rules({.biases = {{3, 50.0f}}}, {}, {});
  LogitRow ruled = greedy;
  ruled.rules = &rules;
  EXPECT_EQ(bytes_to_host({greedy, ruled}), 2 * kIdBytes + kRowBytes);
  EXPECT_EQ(rig_.run({greedy, ruled})[1].id, 3);
}

TEST_F(CudaTokenPicker, ShownRowsKeepTheirPlaces) {
  const auto got = rig_.run({{.is_shown = true}, picked({}), {.is_shown = true}});
  for (const size_t i : {0u, 2u}) {
    EXPECT_TRUE(std::equal(got[i].logits.begin(), got[i].logits.end(), rig_.row(i).begin())) << i;
    EXPECT_EQ(got[i].logits.size(), static_cast<size_t>(kVocab));
  }
}

TEST_F(CudaTokenPicker, NotFiniteLogitsAreNamedAsOnTheCpu) {
  rig_.logits[kVocab + 17] = NAN;
  const LogitRow greedy = picked({});
  EXPECT_ERROR(rig_.run({greedy, greedy}), kInput, "the logit of token 17 is nan");
  EXPECT_ERROR(rig_.run({greedy, drawn(20, 1, kVocab)}), kInput, "the logit of token 17 is nan");
  EXPECT_ERROR(rig_.run({greedy, drawn(0, 1, kVocab)}), kInput, "the logit of token 17 is nan");
  EXPECT_EQ(rig_.run({greedy, {.is_shown = true}}).size(), 2u);
}

// ---- Whole models -------------------------------------------------------------------------------

struct Way {
  bool on_gpus = false;   // that exchange rows from memory to memory
  bool is_alone = false;  // one of them
  bool is_captured = true;
  int32_t first_share = 32;
  bool shows_logits = false;  // of prompt 0
};

// Prompts and answers of several lengths, so that batches shrink. The drawn ones end first: of two
// steps padded to one size one draws and the other does not.
ModelRun run_of(const Way& way, StreamFabric& fabric) {
  ModelRun run;
  run.options.model = COLIBRI_SOURCE_DIR "/tests/data/models/qwen2_moe_shared";
  run.options.ranks = way.is_alone ? 1 : 2;
  run.options.threads = 1;
  for (int i = 0; i < 5; ++i) run.prompts.emplace_back(static_cast<size_t>(3 + 3 * i), 7 * i + 1);
  run.max_tokens = 9;
  run.adjust = [way](size_t i, Request& request) {
    if (!way.shows_logits) request.on_logits = nullptr;
    request.max_tokens = 5 + static_cast<int64_t>(i);
    if (i == 3) request.logit_rules = {.frequency_penalty = 1.5};
    if (i >= 2) return;
    request.sampling = {
        .greedy = false, .temperature = 3, .top_k = i == 0 ? 50 : 0, .seed = 11 * i};
  };
  if (!way.on_gpus) return run;
  run.hooks.make_device = [](ThreadPool&) { return make_cuda_device(0); };
  run.hooks.make_ops = [](Isa) { return make_cuda_ops(); };
  run.hooks.make_link = [&fabric, way](RankContext& context,
                                       Device& device) -> std::unique_ptr<DeviceLink> {
    if (way.is_alone) return make_lone_link(device, false);
    return std::make_unique<StreamLink>(fabric, context.rank, way.is_captured);
  };
  run.hooks.fixed_capacity = {.max_tokens = 16, .first_share = way.first_share};
  return run;
}

struct Ran {
  ModelOutput output;
  uint64_t bytes_to_host = 0;
  std::vector<OrderEntry> log;
};

Ran run(const Way& way) {
  StreamFabric fabric;
  colibri_sim::reset_counters();
  colibri_sim::start_order_log();
  Ran ran;
  ran.output = run_model(run_of(way, fabric));
  ran.bytes_to_host = colibri_sim::bytes_copied_to_host();
  ran.log = colibri_sim::order_log();
  return ran;
}

// What the others are held against.
const Ran& cpus() {
  static const Ran one = run({});
  return one;
}
const Ran& replayed() {
  static const Ran one = run({.on_gpus = true});
  return one;
}

TEST(StepTokensTest, ReplayedStepsHaveTheCpusTokens) {
  EXPECT_EQ(replayed().output.ids, cpus().output.ids);
  EXPECT_EQ(replayed().output.fixed_steps.num_reruns, 0u);
}

TEST(StepTokensTest, StepsThatRunAgainHandOutTheTokensOfTheSecondRun) {
  const ModelOutput got = run({.on_gpus = true, .first_share = 2}).output;
  EXPECT_EQ(got.ids, cpus().output.ids);
  EXPECT_GT(got.fixed_steps.num_reruns, 0u);
}

TEST(StepTokensTest, ReadingLogitsBringsTheirBytesAndNoOtherToken) {
  const Ran with = run({.on_gpus = true, .shows_logits = true});
  EXPECT_EQ(with.output.ids, replayed().output.ids);
  ASSERT_EQ(with.output.logits.size(), 5u);
  EXPECT_EQ(with.bytes_to_host - replayed().bytes_to_host,
            5 * with.output.logits.front().size() * sizeof(float));
}

// More rows of logits than captured steps have room for, between such steps.
TEST(StepTokensTest, ScoringALongPromptLeavesReplayedStepsSound) {
  std::vector<std::vector<std::vector<int32_t>>> ids;
  for (const bool on_gpus : {false, true}) {
    StreamFabric fabric;
    ModelRun scoring = run_of({.on_gpus = on_gpus, .shows_logits = true}, fabric);
    scoring.options.max_batch = 2;
    scoring.prompts = {{1, 2, 3}, {4, 5}, std::vector<int32_t>(40, 6)};
    scoring.adjust = [](size_t i, Request& request) {
      request.max_tokens = i == 1 ? 4 : 9;
      request.score_prompt = i == 2;
      if (i == 2) request.on_logits = [](std::span<const float>) {};
    };
    ids.push_back(run_model(scoring).ids);
  }
  EXPECT_EQ(ids[0], ids[1]);
}

// The stream that the coordinator computes on: workers pick no tokens.
int compute_stream(const std::vector<OrderEntry>& log) {
  for (const OrderEntry& entry : log) {
    const bool picks = entry.name.find("pick_tokens") != std::string::npos;
    if (entry.what == Order::kEnqueueKernel && picks) return entry.stream;
  }
  return 0;
}

// How often the host waited for that stream in each step that a graph replayed.
std::vector<int> waits_of_replayed_steps(const std::vector<OrderEntry>& log) {
  std::vector<int> waits;
  const int compute = compute_stream(log);
  bool is_replayed = false;
  int count = 0;
  for (const OrderEntry& entry : log) {
    if (entry.what == Order::kBeginRange && entry.name == "step") {
      if (is_replayed) waits.push_back(count);
      is_replayed = false;
      count = 0;
    }
    if (entry.stream != compute) continue;
    if (entry.what == Order::kEnqueueGraph) is_replayed = true;
    if (entry.what == Order::kHostWait) ++count;
  }
  return waits;
}

TEST(StepTokensTest, TheHostWaitsOnceInAReplayedStep) {
  const std::vector<int> waits = waits_of_replayed_steps(replayed().log);
  EXPECT_GE(waits.size(), 4u);
  for (const int count : waits) EXPECT_EQ(count, 1);
}

// It polls an event, which is no wait for the stream.
TEST(StepTokensTest, OneGpuAloneReplaysStepsAndWaitsForNoLayer) {
  const Ran alone = run({.on_gpus = true, .is_alone = true});
  EXPECT_EQ(alone.output.ids, cpus().output.ids);
  const std::vector<int> waits = waits_of_replayed_steps(alone.log);
  EXPECT_GE(waits.size(), 4u);
  for (const int count : waits) EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace colibri
