// What the coordinator's host enqueues in which order, by the simulated device's log: while rows
// are under way the GPU has the shared expert and the own slots to do.
#include <gtest/gtest.h>
#include <simulated_control.h>

#include <algorithm>
#include <set>

#include "base/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/cuda/stream_link.h"
#include "tests/support/run_model.h"

namespace colibri {
namespace {

using colibri_sim::Order;
using colibri_sim::OrderEntry;

// Two ranks, both with experts; the log of one prompt and two new tokens.
std::vector<OrderEntry> log_of(const std::string& model, FixedCapacity fixed = {},
                               bool self_exchange = false) {
  StreamFabric fabric;
  ModelRun run;
  run.options.model = COLIBRI_SOURCE_DIR "/tests/data/models/" + model;
  run.options.ranks = 2;
  run.options.threads = 1;
  run.options.coordinator_experts = 4;
  run.options.self_exchange = self_exchange;
  run.prompts = {{1, 2, 3, 4, 5}};
  run.max_tokens = 3;
  run.hooks.make_device = [](ThreadPool&) { return make_cuda_device(0); };
  run.hooks.make_ops = [](Isa) { return make_cuda_ops(); };
  run.hooks.make_link = [&](RankContext& context, Device&) {
    return std::make_unique<StreamLink>(fabric, context.rank);
  };
  run.hooks.fixed_capacity = fixed;
  colibri_sim::start_order_log();
  run_model(run);
  return colibri_sim::order_log();
}

bool is_kernel(const OrderEntry& entry, const char* name) {
  return entry.what == Order::kEnqueueKernel && entry.name.find(name) != std::string::npos;
}

// The log of the stream that the coordinator computes on; its other stream's posts stand between.
std::vector<OrderEntry> coordinators(const std::vector<OrderEntry>& log) {
  int compute = 0, exchange = 0;
  for (size_t i = 0; i < log.size() && exchange == 0; ++i) {
    if (is_kernel(log[i], "pack_rows")) compute = log[i].stream;
    // The first wait after a packing is the exchange's for it.
    if (compute != 0 && log[i].what == Order::kWaitEvent && log[i].stream != compute) {
      exchange = log[i].stream;
    }
  }
  std::vector<OrderEntry> own;
  for (const OrderEntry& entry : log) {
    const bool is_post = entry.stream == exchange && entry.what == Order::kEnqueueWork;
    if (entry.stream == compute || is_post) own.push_back(entry);
  }
  return own;
}

// "post", "shared", "own", "wait" and "host" between packing and combining, one string a layer.
std::set<std::string> orders_of_layers(const std::vector<OrderEntry>& log) {
  std::set<std::string> orders;
  std::string order;
  bool is_in_layer = false;
  const auto note = [&](const std::string& word) {
    if (order.size() < word.size() || order.substr(order.size() - word.size()) != word) {
      order += (order.empty() ? "" : " ") + word;
    }
  };
  for (const OrderEntry& entry : coordinators(log)) {
    if (is_kernel(entry, "pack_rows")) {
      is_in_layer = true;
      order.clear();
    }
    if (!is_in_layer) continue;
    if (entry.what == Order::kEnqueueWork) note("post");
    if (is_kernel(entry, "matmul")) note("shared");
    if (is_kernel(entry, "ffn_")) note("own");
    if (entry.what == Order::kWaitEvent) note("wait");
    if (entry.what == Order::kHostWait) note("host");
    if (!is_kernel(entry, "combine")) continue;
    orders.insert(order);
    is_in_layer = false;
  }
  return orders;
}

// A layer whose rows are all another rank's has no own slots to run.
void expect_overlap(const std::set<std::string>& orders) {
  EXPECT_TRUE(orders.contains("post shared own wait"));
  for (const std::string& order : orders) {
    EXPECT_TRUE(order == "post shared own wait" || order == "post shared wait") << order;
  }
}

TEST(OverlapTest, SharedExpertAndOwnSlotsAreEnqueuedBetweenThePostAndTheWait) {
  expect_overlap(orders_of_layers(log_of("qwen2_moe_shared")));
}

TEST(OverlapTest, LikewiseInStepsOfFixedSize) {
  expect_overlap(orders_of_layers(log_of("qwen2_moe_shared", {.max_tokens = 16})));
}

// Own slots run on the message that this rank sent itself, and their results come back.
TEST(OverlapTest, OwnRowsThatTravelAreWaitedForBothWays) {
  const auto orders = orders_of_layers(log_of("qwen2_moe_shared", {.max_tokens = 16}, true));
  EXPECT_EQ(orders, std::set<std::string>{"post shared wait own post wait"});
}

std::set<std::string> ranges_of(const std::vector<OrderEntry>& log) {
  std::set<std::string> names;
  for (const OrderEntry& entry : log) {
    if (entry.what == Order::kBeginRange) names.insert(entry.name);
  }
  return names;
}

TEST(RangesTest, EveryStageOfBothRanksIsNamed) {
  const std::set<std::string> names = ranges_of(log_of("deepseek_v3_groups"));
  for (size_t i = 0; i < kNumStages; ++i) {
    const char* stage = to_string(static_cast<Stage>(i));
    EXPECT_TRUE(names.contains(stage)) << stage;
  }
  for (const char* name : {"step", "load weights", "worker: receive rows", "worker: experts",
                           "worker: send results", "worker: wait"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(RangesTest, EveryRangeEnds) {
  const std::vector<OrderEntry> log = log_of("deepseek_v3_groups");
  const auto count = [&](Order what) {
    return std::count_if(log.begin(), log.end(),
                         [&](const OrderEntry& entry) { return entry.what == what; });
  };
  EXPECT_GT(count(Order::kBeginRange), 0);
  EXPECT_EQ(count(Order::kBeginRange), count(Order::kEndRange));
}

}  // namespace
}  // namespace colibri
