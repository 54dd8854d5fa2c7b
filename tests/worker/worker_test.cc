// Workers' loops against coordinators' exchanges, ranks as threads.

#include "worker/worker.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/dtype.h"
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
    const auto at = static_cast<size_t>(results.offset[static_cast<size_t>(pair)]);
    const auto* row = static_cast<const std::byte*>(results.data) + at * size_of(results.dtype);
    std::vector<float> wide(static_cast<size_t>(hidden));
    widen_to_float(results.dtype, row, wide.size(), wide.data());
    out.insert(out.end(), wide.begin(), wide.end());
  }
  return out;
}

ExchangeOptions options_of(ShardRig& rig, Transport* transport, LocalExperts* local) {
  return {.transport = transport,
          .local = local,
          .device = rig.backend().device,
          .ops = &rig.ops(),
          .result_dtype = rig.backend().activations,
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

// All rounds of a coordinator with expert 0 of its own and a worker with the others.
struct TwoRankRun {
  std::vector<std::vector<float>> rounds;
  ExchangeTotals totals;
};
TwoRankRun run_two_ranks(DType results) {
  ShardRig rig(results);
  const Placement split(rig.shape(), 2, {{{0}, {1, 2}}, {{0}, {1, 2}}});
  LocalFabric fabric(2);
  std::thread worker_thread([&] {
    ShardRig own(results);
    const auto shard = own.load(split, 1);
    const auto transport = fabric.endpoint(1);
    Worker(*transport, *shard,
           {.coordinators = {0},
            .result_dtype = results,
            .hidden_size = own.config().hidden_size,
            .num_layers = own.config().num_layers,
            .max_rows = kMaxTokens,
            .max_pairs = kMaxTokens * own.config().top_k,
            .may_spin = false})
        .run(own.stream());
  });
  const auto shard = rig.load(split, 0);
  const auto transport = fabric.endpoint(0);
  const auto exchange = make_exchange(options_of(rig, transport.get(), shard.get()));
  TwoRankRun run;
  for (int round = 0; round < kNumRounds; ++round) {
    run.rounds.push_back(run_round(rig, split, *exchange, round));
  }
  run.totals = exchange->totals();
  stop(*transport, 1);
  worker_thread.join();
  return run;
}

TEST(WorkerTest, ResultsInBf16AreThoseInF32RoundedOnceOwnOnesToo) {
  TwoRankRun f32 = run_two_ranks(DType::kF32);
  const TwoRankRun bf16 = run_two_ranks(DType::kBF16);
  for (auto& round : f32.rounds) {
    for (float& value : round) value = bf16_to_float(float_to_bf16(value));
  }
  EXPECT_EQ(bf16.rounds, f32.rounds);
}

TEST(WorkerTest, ResultsInBf16TakeHalfTheBytesBesideTheHeaders) {
  const ExchangeTotals f32 = run_two_ranks(DType::kF32).totals;
  const ExchangeTotals bf16 = run_two_ranks(DType::kBF16).totals;
  const uint64_t headers = 64 * f32.num_messages;
  EXPECT_EQ(bf16.num_messages, f32.num_messages);
  EXPECT_EQ(2 * (bf16.combine_bytes - headers), f32.combine_bytes - headers);
  EXPECT_EQ(bf16.dispatch_bytes, f32.dispatch_bytes);
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
