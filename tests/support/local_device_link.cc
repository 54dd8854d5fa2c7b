#include "tests/support/local_device_link.h"

#include <chrono>

#include "base/error.h"

namespace colibri {

class LocalDeviceLink : public DeviceLink {
 public:
  LocalDeviceLink(LocalDeviceFabric& fabric, int rank, Device& device)
      : fabric_(fabric), rank_(rank), device_(device) {}
  int rank() const override { return rank_; }
  int size() const override { return fabric_.num_ranks_; }
  bool can_be_captured() const override { return false; }  // it copies and waits on the host

  void post(std::span<const DeviceSend> sends, std::span<const DeviceRecv> recvs,
            Stream& stream) override {
    for (const DeviceSend& send : sends) give(send, stream);
    for (const DeviceRecv& recv : recvs) take(recv, stream);
  }

  void wait(Stream& stream, const Deadline&, const std::string&,
            const std::function<void()>& meanwhile) override {
    if (meanwhile) meanwhile();
    stream.synchronize();
  }

 private:
  void give(const DeviceSend& send, Stream& stream) {
    LocalDeviceFabric::Message message(send.bytes);
    device_.copy(message.data(), send.data, send.bytes, stream);
    stream.synchronize();
    const std::lock_guard lock(fabric_.mutex_);
    fabric_.messages_[{rank_, send.peer}].push(std::move(message));
    fabric_.arrived_.notify_all();
  }

  void take(const DeviceRecv& recv, Stream& stream) {
    LocalDeviceFabric::Message message;
    {
      std::unique_lock lock(fabric_.mutex_);
      auto& queue = fabric_.messages_[{recv.peer, rank_}];
      if (!fabric_.arrived_.wait_for(lock, std::chrono::seconds(30),
                                     [&] { return !queue.empty(); })) {
        fail(ErrorKind::kTimeout, "nothing from rank ", recv.peer);
      }
      message = std::move(queue.front());
      queue.pop();
    }
    check(message.size() == recv.bytes, "rank ", recv.peer, " sent ", message.size(),
          " bytes, rank ", rank_, " wants ", recv.bytes);
    device_.copy(recv.data, message.data(), recv.bytes, stream);
    stream.synchronize();
  }

  LocalDeviceFabric& fabric_;
  int rank_;
  Device& device_;
};

std::unique_ptr<DeviceLink> LocalDeviceFabric::link(int rank, Device& device) {
  return std::make_unique<LocalDeviceLink>(*this, rank, device);
}

}  // namespace colibri
