#include "launch/doctor_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"

namespace colibri {
namespace {

constexpr int kNumRounds = 20;

// As large as the rows of a long prompt; the simulated device's rates mean nothing.
size_t exchange_bytes(const CudaBackend& backend) {
  return std::string_view(backend.kind) == "simulated" ? size_t{16} << 10 : size_t{64} << 20;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A device, its link, and memory for one message each way.
class GpuEnd {
 public:
  GpuEnd(const CommonOptions& options, RankContext& context)
      : deadline_ms_(int64_t{options.start_timeout_s} * 1000),
        backend_(*context.device.backend),
        device_(backend_.make_device(context.device.gpu.ordinal)),
        stream_(device_->make_stream()),
        link_(backend_.make_link(*device_, {.host = context.transport,
                                            .start_timeout_ms = deadline_ms_,
                                            .step_timeout_ms = deadline_ms_,
                                            .may_spin = false})),
        out_(*device_, exchange_bytes(backend_)),
        in_(*device_, exchange_bytes(backend_)) {}

  size_t bytes() const { return out_.size_bytes(); }

  // Microseconds until both messages are there.
  double exchange_us(int peer) {
    const auto start = std::chrono::steady_clock::now();
    const DeviceSend send{peer, out_.data(), out_.size_bytes()};
    const DeviceRecv recv{peer, in_.data(), in_.size_bytes()};
    link_->post({&send, 1}, {&recv, 1}, *stream_);
    link_->wait(*stream_, Deadline::after_ms(deadline_ms_), "an exchange between two GPUs");
    const auto took = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::micro>(took).count();
  }

 private:
  int64_t deadline_ms_;
  const CudaBackend& backend_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<DeviceLink> link_;
  Buffer out_, in_;
};

}  // namespace

bool gpus_can_exchange(const std::function<const CudaBackend&()>& open_backend, int num_ranks) {
  try {
    const CudaBackend& backend = open_backend();
    const GpuProbe probe = backend.probe_gpus();
    std::set<std::string> uuids;
    for (const GpuInfo& gpu : probe.gpus) {
      if (gpu.ordinal < num_ranks) uuids.insert(gpu.uuid);
    }
    return backend.has_nccl() && static_cast<int>(uuids.size()) == num_ranks;
  } catch (const Error&) {
    return false;  // gpu_report() has said why
  }
}

void exchange_between_gpus(const CommonOptions& options, RankContext& context) {
  GpuEnd end(options, context);
  const int first = context.is_root() ? 1 : context.rank;
  const int last = context.is_root() ? context.size - 1 : context.rank;
  for (int peer = first; peer <= last; ++peer) {
    std::vector<double> times;
    for (int i = 0; i < kNumRounds; ++i) {
      times.push_back(end.exchange_us(context.is_root() ? peer : 0));
    }
    if (!context.is_root()) continue;
    const double us = median(times);
    const auto bytes = static_cast<double>(end.bytes());
    const std::string name = "NCCL " + context.device.backend->nccl_version();
    std::fputs(fmt::format("ok   {:<18} GPUs of ranks 0 and {}: {} KB each way at once in {:.0f} "
                           "us, {:.2f} GB/s each way (median of {})\n",
                           name, peer, end.bytes() / 1024, us, bytes / 1e3 / us, kNumRounds)
                   .c_str(),
               stdout);
  }
}

}  // namespace colibri
