#include "launch/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "launch/doctor_exchange.h"
#include "launch/doctor_gpus.h"
#include "topology/machine.h"
#include "topology/system_checks.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

constexpr int kNumPings = 200;
constexpr size_t kPingBytes = 16384;

using Clock = std::chrono::steady_clock;

// One message to `peer` and its answer, both kPingBytes.
double round_trip_us(Transport& transport, int peer, std::vector<char>& buffer,
                     const Deadline& deadline) {
  const auto start = Clock::now();
  const SendOp send{peer, Channel::kRows, buffer.data(), kPingBytes};
  const RecvOp recv{peer, Channel::kResults, buffer.data() + kPingBytes, kPingBytes};
  const Pending pending = transport.post({{&send, 1}, {&recv, 1}}, nullptr);
  transport.wait({&pending, 1}, deadline, "a ping's answer");
  transport.take_received_bytes(pending);
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void answer_pings(Transport& transport, std::vector<char>& buffer, const Deadline& deadline) {
  for (int i = 0; i < kNumPings; ++i) {
    const RecvOp recv{0, Channel::kRows, buffer.data(), kPingBytes};
    const Pending request = transport.post({{}, {&recv, 1}}, nullptr);
    transport.wait({&request, 1}, deadline, "a ping");
    transport.take_received_bytes(request);
    const SendOp send{0, Channel::kResults, buffer.data(), kPingBytes};
    const Pending reply = transport.post({{&send, 1}, {}}, nullptr);
    transport.wait({&reply, 1}, deadline, "sending a ping's answer");
  }
}

int finish_pings(const RunConfig& config, RankContext& context, const Deadline& deadline) {
  barrier(*context.transport, deadline, "the end of the pings");
  if (!context.device.is_cuda()) return 0;
  if (context.device.over_nccl) exchange_between_gpus(config.common, context);
  barrier(*context.transport, deadline, "the end of the exchange between GPUs");
  return 0;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

int print_checks() {
  for (const SystemCheck& check : system_checks(read_system_facts())) {
    std::fputs(check_line(check).c_str(), stdout);
  }
  std::fputs(machine_text(probe_machine()).c_str(), stdout);
  std::fputs(gpu_report([]() -> const CudaBackend& { return open_cuda_backend(); }).c_str(),
             stdout);
  std::fflush(stdout);
  return 0;
}

int ping_ranks(const RunConfig& config, RankContext& context) {
  check(context.transport != nullptr, "ping wants at least two ranks");
  Transport& transport = *context.transport;
  const Deadline deadline = Deadline::after_ms(int64_t{config.common.start_timeout_s} * 1000);
  std::vector<char> buffer(2 * kPingBytes);
  barrier(transport, deadline, "all ranks");
  if (!context.is_root()) {
    answer_pings(transport, buffer, deadline);
    return finish_pings(config, context, deadline);
  }
  for (int peer = 1; peer < context.size; ++peer) {
    std::vector<double> times;
    for (int i = 0; i < kNumPings; ++i) {
      times.push_back(round_trip_us(transport, peer, buffer, deadline));
    }
    std::fputs(
        fmt::format("ok   {:<18} rank {}: {} KB there and back in {:.0f} us (median of {})\n",
                    "ping over " + transport.name(), peer, kPingBytes / 1024, median(times),
                    kNumPings)
            .c_str(),
        stdout);
  }
  return finish_pings(config, context, deadline);
}

}  // namespace colibri
