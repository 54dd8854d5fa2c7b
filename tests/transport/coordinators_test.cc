// Two coordinators against three workers: a worker answers whoever asked, told by the row header.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "transport/local_transport.h"
#include "transport/row_batch.h"

namespace colibri {
namespace {

constexpr int kNumCoordinators = 2, kNumRanks = 5, kNumSteps = 30, kHidden = 4;
constexpr size_t kCapacity = 8192;

struct alignas(64) RowBuffer {
  std::byte bytes[kCapacity];
};

// Rows of coordinator c at step s for worker w: (s + w) % 4 rows, row i filled with
// 1000 c + 100 w + i, each wanting slots i and i + 1.
size_t fill_rows(RowBuffer& buffer, int coordinator, int worker, int step) {
  const int num_rows = (step + worker) % 4;
  const RowMessageLayout layout = row_message_layout(num_rows, 2 * num_rows, kHidden * 4);
  RowHeader header;
  header.source_rank = coordinator;
  header.step = static_cast<uint64_t>(step);
  header.num_rows = num_rows;
  header.num_pairs = 2 * num_rows;
  header.hidden_size = kHidden;
  header.payload_bytes = layout.total_bytes - layout.payload;
  std::memset(buffer.bytes, 0, layout.total_bytes);
  std::memcpy(buffer.bytes, &header, sizeof header);
  auto* begins = reinterpret_cast<int32_t*>(buffer.bytes + layout.pair_begin);
  auto* slots = reinterpret_cast<int32_t*>(buffer.bytes + layout.slots);
  auto* payload = reinterpret_cast<float*>(buffer.bytes + layout.payload);
  for (int i = 0; i < num_rows; ++i) {
    begins[i + 1] = 2 * (i + 1);
    slots[2 * i] = i;
    slots[2 * i + 1] = i + 1;
    for (int h = 0; h < kHidden; ++h) {
      payload[i * kHidden + h] = static_cast<float>(1000 * coordinator + 100 * worker + i);
    }
  }
  return layout.total_bytes;
}

RowExpectation expectation(RowKind kind) {
  return {.kind = kind,
          .epoch = 0,
          .hidden_size = kHidden,
          .num_layers = 1,
          .max_rows = 8,
          .max_pairs = 16};
}

// Result of a pair = row + slot / 2.
size_t fill_results(RowBuffer& buffer, const RowMessageView& rows) {
  RowHeader header = *rows.header;
  header.kind = RowKind::kResults;
  header.num_rows = header.num_pairs;
  header.payload_bytes = static_cast<uint64_t>(header.num_pairs) * kHidden * sizeof(float);
  std::memcpy(buffer.bytes, &header, sizeof header);
  auto* out = reinterpret_cast<float*>(buffer.bytes + sizeof header);
  const auto* in = reinterpret_cast<const float*>(rows.payload);
  for (int row = 0; row < rows.header->num_rows; ++row) {
    const auto i = static_cast<size_t>(row);
    for (int pair = rows.pair_begin[i]; pair < rows.pair_begin[i + 1]; ++pair) {
      for (int h = 0; h < kHidden; ++h) {
        out[pair * kHidden + h] = in[row * kHidden + h] +
                                  static_cast<float>(rows.slots[static_cast<size_t>(pair)]) * 0.5f;
      }
    }
  }
  return sizeof header + header.payload_bytes;
}

Pending listen(Transport& t, int coordinator, RowBuffer& buffer) {
  const RecvOp recv{coordinator, Channel::kRows, buffer.bytes, kCapacity};
  return t.post({{}, {&recv, 1}}, nullptr);
}

void answer(Transport& t, int asker, std::span<const std::byte> message) {
  const RowMessageView rows = parse_row_message(message, asker, expectation(RowKind::kRows));
  RowBuffer out;
  const size_t bytes = fill_results(out, rows);
  const SendOp send{rows.header->source_rank, Channel::kResults, out.bytes, bytes};
  const Pending sent = t.post({{&send, 1}, {}}, nullptr);
  t.wait({&sent, 1}, Deadline::after_ms(10000), "results");
}

// Answers whoever asked first, kNumSteps times each.
void run_worker(Transport& t) {
  RowBuffer buffers[kNumCoordinators];
  Pending pending[kNumCoordinators];
  int num_left[kNumCoordinators] = {kNumSteps, kNumSteps};
  for (int c = 0; c < kNumCoordinators; ++c) pending[c] = listen(t, c, buffers[c]);
  const Deadline deadline = Deadline::after_ms(20000);
  while (num_left[0] + num_left[1] > 0) {
    if (deadline.expired()) fail(ErrorKind::kTimeout, "worker ", t.rank(), " was not asked");
    bool was_asked = false;
    for (int c = 0; c < kNumCoordinators; ++c) {
      if (num_left[c] == 0 || !t.test(pending[c])) continue;
      was_asked = true;
      const size_t bytes = t.take_received_bytes(pending[c]).at(0);
      answer(t, c, {buffers[c].bytes, bytes});
      if (--num_left[c] > 0) pending[c] = listen(t, c, buffers[c]);
    }
    if (!was_asked) std::this_thread::yield();
  }
}

void check_results(const RowBuffer& buffer, size_t bytes, int coordinator, int worker, int step) {
  const RowMessageView view =
      parse_row_message({buffer.bytes, bytes}, worker, expectation(RowKind::kResults));
  if (view.header->source_rank != coordinator || view.header->step != static_cast<uint64_t>(step)) {
    fail(ErrorKind::kInternal, "answer for coordinator ", view.header->source_rank, " step ",
         view.header->step, ", want ", coordinator, " step ", step);
  }
  const auto* out = reinterpret_cast<const float*>(view.payload);
  for (int pair = 0; pair < view.header->num_pairs; ++pair) {
    const int row = pair / 2, slot = row + pair % 2;
    const auto want = static_cast<float>(1000 * coordinator + 100 * worker + row) +
                      static_cast<float>(slot) * .5f;
    if (out[pair * kHidden] != want) {
      fail(ErrorKind::kInternal, "pair ", pair, " is ", out[pair * kHidden], ", want ", want);
    }
  }
}

void run_coordinator(Transport& t) {
  RowBuffer sent[kNumRanks], received[kNumRanks];
  for (int step = 0; step < kNumSteps; ++step) {
    std::vector<SendOp> sends;
    std::vector<RecvOp> recvs;
    for (int worker = kNumCoordinators; worker < kNumRanks; ++worker) {
      const size_t bytes = fill_rows(sent[worker], t.rank(), worker, step);
      sends.push_back({worker, Channel::kRows, sent[worker].bytes, bytes});
      recvs.push_back({worker, Channel::kResults, received[worker].bytes, kCapacity});
    }
    const Pending pending = t.post({sends, recvs}, nullptr);
    t.wait({&pending, 1}, Deadline::after_ms(20000), "results of step " + std::to_string(step));
    const std::vector<size_t> bytes = t.take_received_bytes(pending);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int worker = recvs[i].peer;
      check_results(received[worker], bytes[i], t.rank(), worker, step);
    }
  }
}

TEST(CoordinatorsTest, TwoCoordinatorsAgainstThreeWorkers) {
  LocalFabric fabric(kNumRanks);
  std::mutex mutex;
  std::vector<std::string> failures;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto transport = fabric.endpoint(rank);
        rank < kNumCoordinators ? run_coordinator(*transport) : run_worker(*transport);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failures.push_back("rank " + std::to_string(rank) + ": " + error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<std::string>{});
}

}  // namespace
}  // namespace colibri
