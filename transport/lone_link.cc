#include "base/backoff.h"
#include "base/error.h"
#include "transport/device_link.h"

namespace colibri {
namespace {

class LoneLink : public DeviceLink {
 public:
  LoneLink(Device& device, bool may_spin)
      : device_(device), may_spin_(may_spin), marker_(device.make_event()) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool can_be_captured() const override { return true; }
  void post(std::span<const DeviceSend> sends, std::span<const DeviceRecv> recvs,
            Stream&) override {
    check(sends.empty() && recvs.empty(), "a rank alone sends to nobody");
  }
  void wait(Stream& stream, const Deadline& deadline, const std::string& what,
            const std::function<void()>& meanwhile) override;

 private:
  Device& device_;
  bool may_spin_;
  std::unique_ptr<Event> marker_;
};

void LoneLink::wait(Stream& stream, const Deadline& deadline, const std::string& what,
                    const std::function<void()>& meanwhile) {
  device_.record(*marker_, stream);
  Backoff backoff(may_spin_);
  for (bool is_last = false; !device_.reached(*marker_); is_last = deadline.expired()) {
    if (is_last) {
      fail(ErrorKind::kTimeout, "the GPU did not end ", what, " within ", deadline.waited_ms(),
           " ms");
    }
    if (meanwhile) meanwhile();
    backoff.pause();
  }
}

}  // namespace

std::unique_ptr<DeviceLink> make_lone_link(Device& device, bool may_spin) {
  return std::make_unique<LoneLink>(device, may_spin);
}

}  // namespace colibri
