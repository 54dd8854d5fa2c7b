// Time of one exchange: rank 0 sends a row message to every worker and waits for all answers, as a
// layer of a decode step does. Run it alone (ranks are threads) or under mpirun:
//   transport_bench NUM_RANKS
//   mpirun -n 3 --oversubscribe --bind-to none transport_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "transport/collectives.h"
#include "transport/local_transport.h"
#include "transport/mpi_transport.h"
#include "transport/rendezvous.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNumRounds = 2000;
constexpr int kNumWarmUpRounds = 200;

Deadline minute() { return Deadline::after_ms(60000); }

void exchange(Transport& t, const std::vector<SendOp>& sends, const std::vector<RecvOp>& recvs) {
  const Pending pending = t.post({sends, recvs}, nullptr);
  t.wait({&pending, 1}, minute(), "exchange");
  if (!recvs.empty()) t.take_received_bytes(pending);
}

std::vector<double> time_rounds(Transport& t, std::vector<std::vector<char>>& buffers) {
  std::vector<double> times_us;
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (int peer = 1; peer < t.size(); ++peer) {
    std::vector<char>& out = buffers[0];
    std::vector<char>& in = buffers[static_cast<size_t>(peer)];
    sends.push_back({peer, Channel::kRows, out.data(), out.size()});
    recvs.push_back({peer, Channel::kResults, in.data(), in.size()});
  }
  for (int round = 0; round < kNumRounds; ++round) {
    const auto start = Clock::now();
    exchange(t, sends, recvs);
    times_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  times_us.erase(times_us.begin(), times_us.begin() + kNumWarmUpRounds);
  std::sort(times_us.begin(), times_us.end());
  return times_us;
}

void answer_rounds(Transport& t, std::vector<char>& buffer) {
  for (int round = 0; round < kNumRounds; ++round) {
    exchange(t, {}, {{0, Channel::kRows, buffer.data(), buffer.size()}});
    exchange(t, {{0, Channel::kResults, buffer.data(), buffer.size()}}, {});
  }
}

void run_rank(Transport& t) {
  for (const size_t bytes : {size_t{64}, size_t{8192}, size_t{65536}, size_t{1} << 20}) {
    std::vector<std::vector<char>> buffers(static_cast<size_t>(t.size()), std::vector<char>(bytes));
    barrier(t, minute(), "start");
    if (t.rank() > 0) answer_rounds(t, buffers[0]);
    if (t.rank() > 0) continue;
    const std::vector<double> us = time_rounds(t, buffers);
    const double median = us[us.size() / 2];
    const auto moved = 2.0 * static_cast<double>(bytes) * (t.size() - 1);
    std::printf("%-5s %d ranks %8zu bytes  median %8.1f us  p99 %8.1f us  %6.2f GB/s\n",
                t.name().c_str(), t.size(), bytes, median, us[us.size() * 99 / 100],
                moved / median / 1000);
  }
  barrier(t, minute(), "end");
}

void run_threads(int num_ranks) {
  LocalFabric fabric(num_ranks, num_ranks <= static_cast<int>(allowed_cpus().size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&fabric, rank] { run_rank(*fabric.endpoint(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
}

void run_processes(const RankInfo& who) {
  MpiOptions options;
  options.may_spin = who.num_local_ranks <= static_cast<int>(allowed_cpus().size());
  const auto transport = make_mpi_transport(options);
  run_rank(*transport);
  transport->finalize(0);
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  const RankInfo who = find_rank([](const char* name) { return std::getenv(name); });
  if (who.started_by_launcher()) {
    run_processes(who);
  } else {
    run_threads(argc > 1 ? std::atoi(argv[1]) : 3);
  }
}
