// DeviceLink between two ranks that are threads, whose messages are carried by work on their
// streams of the simulated device, as NCCL's are.
#pragma once

#include <simulated_control.h>
#include <simulated_stream.h>

#include <cstring>
#include <map>
#include <mutex>
#include <queue>
#include <utility>
#include <vector>

#include "base/device.h"
#include "transport/device_link.h"

namespace colibri {

class StreamFabric {
 public:
  using Message = std::vector<std::byte>;
  void give(int from, int to, Message message) {
    const std::lock_guard lock(mutex_);
    messages_[{from, to}].push(std::move(message));
  }
  bool take(int from, int to, Message& message) {
    const std::lock_guard lock(mutex_);
    auto& queue = messages_[{from, to}];
    if (queue.empty()) return false;
    message = std::move(queue.front());
    queue.pop();
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::queue<Message>> messages_;
};

struct SendWork : colibri_sim::StreamWork {
  StreamFabric* fabric = nullptr;
  int rank = 0;
  DeviceSend send;
  bool step() override {
    const auto* data = static_cast<const std::byte*>(send.data);
    fabric->give(rank, send.peer, {data, data + send.bytes});
    return true;
  }
};

struct RecvWork : colibri_sim::StreamWork {
  StreamFabric* fabric = nullptr;
  int rank = 0;
  DeviceRecv recv;
  bool step() override {
    StreamFabric::Message message;
    if (!fabric->take(recv.peer, rank, message)) return false;
    if (!message.empty()) std::memcpy(recv.data, message.data(), message.size());
    return true;
  }
};

// `can_be_captured`: decode steps are then replayed from graphs.
class StreamLink : public DeviceLink {
 public:
  StreamLink(StreamFabric& fabric, int rank, bool can_be_captured = false)
      : fabric_(fabric), rank_(rank), can_be_captured_(can_be_captured) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  bool can_be_captured() const override { return can_be_captured_; }
  void post(std::span<const DeviceSend> sends, std::span<const DeviceRecv> recvs,
            Stream& stream) override {
    for (const DeviceSend& send : sends) {
      auto work = std::make_shared<SendWork>();
      work->send = send;
      put(std::move(work), "send", stream);
    }
    for (const DeviceRecv& recv : recvs) {
      auto work = std::make_shared<RecvWork>();
      work->recv = recv;
      put(std::move(work), "receive", stream);
    }
  }
  using DeviceLink::wait;
  void wait(Stream& stream, const Deadline&, const std::string&,
            const std::function<void()>&) override {
    stream.synchronize();
  }

 private:
  template <class Work>
  void put(std::shared_ptr<Work> work, const char* name, Stream& stream) {
    work->fabric = &fabric_;
    work->rank = rank_;
    colibri_sim::enqueue(
        static_cast<cudaStream_t>(stream.native_handle()),
        [work] { return std::make_unique<Work>(*work); }, name);
  }

  StreamFabric& fabric_;
  int rank_;
  bool can_be_captured_;
};

}  // namespace colibri
