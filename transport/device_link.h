// Bytes between the memories of the ranks' devices, where both sides know how many. NCCL is one
// (nccl_comm.h); tests have another between threads. Counts and stops travel through a Transport,
// whose buffers lie in host memory.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/deadline.h"
#include "base/device.h"

namespace colibri {

// Tells one link from another; for one use.
using LinkId = std::array<std::byte, 128>;

struct DeviceSend {
  int peer = 0;
  const void* data = nullptr;
  size_t bytes = 0;
};
struct DeviceRecv {
  int peer = 0;
  void* data = nullptr;
  size_t bytes = 0;
};

// One thread uses it. After an error it is of no further use.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether groups may be captured into a graph (base/device.h).
  virtual bool can_be_captured() const = 0;
  // False for a rank that was lost before the link was made: nothing goes there and nothing comes.
  virtual bool reaches(int /*rank*/) const { return true; }
  // Ends all that is under way at once; after it the link is of no further use.
  virtual void abandon() {}

  // One group, in stream order: its sends and receives go on together, and groups one after the
  // other. The peer's group names the other end of each with the same number of bytes; 0 is legal
  // and is named too. Buffers lie in the device's memory and stay alive until the stream is past
  // the group. Never blocks on a GPU.
  virtual void post(std::span<const DeviceSend> sends, std::span<const DeviceRecv> recvs,
                    Stream& stream) = 0;

  // Returns once all work on `stream` is done. Fails with kTimeout at the deadline and with
  // kRankLost when a peer is dead, naming the ranks and `what`; the groups under way are then given
  // up. Errors of other work on the stream: as Stream::synchronize. Calls `meanwhile`, if there is
  // one, between two looks at the stream; it must not touch streams.
  virtual void wait(Stream& stream, const Deadline& deadline, const std::string& what,
                    const std::function<void()>& meanwhile) = 0;
  void wait(Stream& stream, const Deadline& deadline, const std::string& what) {
    wait(stream, deadline, what, {});
  }
};

// Of a rank alone: no group has a send or a receive. Can be captured.
std::unique_ptr<DeviceLink> make_lone_link(Device& device, bool may_spin);

}  // namespace colibri
