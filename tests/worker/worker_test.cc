// Workers' loops against coordinators' exchanges, ranks as threads.

#include "worker/worker.h"

#include <gtest/gtest.h>

#include <thread>

#include "coordinator/dispatch_plan.h"
#include "coordinator/exchange.h"
#include "tests/worker/shard_rig.h"
#include "transport/local_transport.h"

namespace colibri {
namespace {

constexpr int64_t kMaxTokens = 8;
constexpr int kNumRounds = 20;

// Experts 0 1 2 of both layers on ranks 2 3 4; ranks 0 and 1 coordinate.
Placement on_three_workers(const ModelShape& shape) {
  const std::vector<std::vector<int32_t>> layer = {{}, {}, {0}, {1}, {2}};
  return Placement(shape, 5, {layer, layer});
}

void serve(LocalFabric& fabric, int rank, const Placement& placement, std::atomic<int>& exit_code) {
  ShardRig rig;
  const auto shard = rig.load(placement, rank);
  const auto transport = fabric.endpoint(rank);
  Worker worker(*transport, *shard,
                {.coordinators = {0, 1},
                 .hidden_size = rig.config().hidden_size,
                 .num_layers = rig.config().num_layers,
                 .max_rows = kMaxTokens,
                 .max_pairs = kMaxTokens * rig.config().top_k,
                 .may_spin = false});
  exit_code += worker.run(rig.stream());
}

void stop(Transport& transport, int rank) {
  const auto message =
      encode_control(transport.rank(), transport.epoch(), StopBody{.exit_code = 1});
  std::vector<std::byte> stats(kMaxControlBytes);
  const SendOp send{rank, Channel::kControl, message.data(), message.size()};
  const RecvOp recv{rank, Channel::kControl, stats.data(), stats.size()};
  const Pending pending = transport.post({{&send, 1}, {&recv, 1}}, nullptr);
  transport.wait({&pending, 1}, Deadline::after_ms(10000), "a worker to stop");
  transport.take_received_bytes(pending);
}

// One round: the choice of round `round` through `exchange`; the results in the order of the
// choices.
std::vector<float> run_round(ShardRig& rig, const Placement& placement, ExpertExchange& exchange,
                             int round) {
  const int64_t hidden = rig.config().hidden_size, tokens = round % kMaxTokens + 1;
  const auto x = rig.rows(tokens, round);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < tokens; ++t) {
    const int first = static_cast<int>(t + round) % 2;
    ids.insert(ids.end(), {first, first + 1});
  }
  DispatchPlan plan;
  const int layer = round % 2;
  plan_dispatch({.layer = layer, .num_tokens = tokens, .top_k = 2, .expert_ids = ids}, placement,
                plan);
  exchange.begin({.layer = layer,
                  .tokens = {x.data(), DType::kF32, hidden},
                  .num_tokens = tokens,
                  .row_begin = plan.row_begin,
                  .row_token = plan.row_token,
                  .pair_begin = plan.pair_begin,
                  .slot = plan.slot},
                 rig.stream());
  exchange.run_local(rig.stream());
  const ExpertResults results = exchange.finish(Deadline::after_ms(10000), rig.stream());
  std::vector<float> out;
  for (const int32_t pair : plan.pair_of_choice) {
    const float* row = results.data + results.offset[static_cast<size_t>(pair)];
    out.insert(out.end(), row, row + hidden);
  }
  return out;
}

ExchangeOptions options_of(ShardRig& rig, Transport* transport, LocalExperts* local) {
  return {.transport = transport,
          .local = local,
          .device = rig.backend().device,
          .ops = &rig.ops(),
          .hidden_size = rig.config().hidden_size,
          .num_layers = rig.config().num_layers,
          .max_tokens = kMaxTokens,
          .top_k = 2,
          .may_spin = false};
}

void coordinate(LocalFabric& fabric, int rank, const Placement& placement,
                std::vector<std::vector<float>>& rounds) {
  ShardRig rig;
  const auto transport = fabric.endpoint(rank);
  const auto exchange = make_exchange(options_of(rig, transport.get(), nullptr));
  for (int round = 0; round < kNumRounds; ++round) {
    rounds.push_back(run_round(rig, placement, *exchange, round + rank));
  }
  for (int worker = 2; worker < 5; ++worker) stop(*transport, worker);
}

TEST(WorkerTest, TwoCoordinatorsAgainstThreeWorkersGetTheBitsOfOneRankAlone) {
  ShardRig rig;
  const Placement spread = on_three_workers(rig.shape());
  LocalFabric fabric(5);
  std::vector<std::vector<float>> rounds[2];
  std::atomic<int> exit_codes{0};
  std::vector<std::thread> threads;
  for (int rank = 2; rank < 5; ++rank) {
    threads.emplace_back([&, rank] { serve(fabric, rank, spread, exit_codes); });
  }
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] { coordinate(fabric, rank, spread, rounds[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(exit_codes, 3);

  const Placement alone(rig.shape(), 1, {{{0, 1, 2}}, {{0, 1, 2}}});
  const auto shard = rig.load(alone, 0);
  const auto exchange = make_exchange(options_of(rig, nullptr, shard.get()));
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(rounds[rank].size(), static_cast<size_t>(kNumRounds));
    for (int round = 0; round < kNumRounds; ++round) {
      EXPECT_EQ(rounds[rank][static_cast<size_t>(round)],
                run_round(rig, alone, *exchange, round + rank))
          << "coordinator " << rank << ", round " << round;
    }
  }
}

TEST(WorkerTest, LeavesWithRankLostWhenItsCoordinatorDies) {
  ShardRig rig;
  const Placement one(rig.shape(), 2, {{{}, {0, 1, 2}}, {{}, {0, 1, 2}}});
  LocalFabric fabric(2);
  ErrorKind kind = ErrorKind::kInternal;
  std::thread worker_thread([&] {
    ShardRig own;
    const auto shard = own.load(one, 1);
    const auto transport = fabric.endpoint(1);
    Worker worker(*transport, *shard,
                  {.coordinators = {0},
                   .hidden_size = own.config().hidden_size,
                   .num_layers = own.config().num_layers,
                   .max_rows = 4,
                   .max_pairs = 8,
                   .may_spin = false});
    try {
      worker.run(own.stream());
    } catch (const Error& error) {
      kind = error.kind();
    }
  });
  fabric.kill(0);
  worker_thread.join();
  EXPECT_EQ(kind, ErrorKind::kRankLost);
}

}  // namespace
}  // namespace colibri
