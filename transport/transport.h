// Bytes between ranks. Nothing about experts: counts and pointers only.
//
// A *group* of sends and receives is posted at once and waited for later; no call but wait() takes
// time, and wait() ends at its deadline or when a peer is dead. Between one pair of ranks, messages
// of one channel arrive in the order they were posted; a receive takes the next message of its
// channel that was sent under the receiver's current epoch, and may be shorter than its capacity.
// A message of a later epoch is kept until the receiver's epoch gets there. A rank may send to
// itself. A done send means that its buffer is free, not that the peer has read it.
//
// Local (ranks are threads), MPI (host memory) and NCCL (device memory) implement this and pass one
// test suite, tests/transport/transport_suite.h.
//
// Threads: one thread uses a Transport; each rank has its own object.
// Errors:  kInternal for a message larger than the posted capacity (both sizes, peer and channel
//          named), for a rank outside [0, size), and for a group that set_epoch() abandoned;
//          kUnsupported for a send the carrier cannot take in one message (MPI: 2^31 - 1 bytes);
//          kRankLost when a peer that test() or wait() needs is dead; kTimeout from wait().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/device.h"

namespace colibri {

enum class Channel : uint8_t { kControl = 0, kRows = 1, kResults = 2, kStartup = 3 };
inline constexpr int kNumChannels = 4;
const char* to_string(Channel channel);

struct SendOp {
  int peer = 0;
  Channel channel = Channel::kControl;
  const void* data = nullptr;  // stays alive and unchanged until the group is done
  size_t bytes = 0;            // 0 is legal: an empty message
};

struct RecvOp {
  int peer = 0;
  Channel channel = Channel::kControl;
  void* data = nullptr;  // stays alive until the group is done
  size_t capacity_bytes = 0;
};

struct Group {
  std::span<const SendOp> sends;
  std::span<const RecvOp> recvs;
};

// A posted group. Cheap to copy. Valid until take_received_bytes(), or, for a group without
// receives, until wait() or a true test() has returned for it. Asking for a group that is already
// done is legal: test() stays true.
struct Pending {
  uint64_t id = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  // "local", "mpi", "nccl"
  virtual Place place() const = 0;       // where the buffers of a group must lie

  // Starts every send and receive of `group`. Device memory is read after the work already on
  // `stream`; host transports ignore the stream, which may be null. Never blocks.
  virtual Pending post(const Group& group, Stream* stream) = 0;

  // True once every operation of the group is complete. Never blocks. Fails as wait() does for a
  // dead peer or a message too large, so that a loop of test() notices a loss at once.
  virtual bool test(const Pending& pending) = 0;

  // Waits for all groups. On time-out makes one full pass more, then fails with kTimeout naming the
  // ranks and channels still pending, `what` and the time waited. With a dead peer among the
  // pending operations fails with kRankLost naming it and `what`; what it sent before it died is
  // still received. After a failure the unfinished groups are abandoned: their buffers stay alive
  // and unused until the transport is destroyed, and the order on their channels is undefined
  // until the epoch moves on.
  virtual void wait(std::span<const Pending> all, const Deadline& deadline,
                    const std::string& what) = 0;

  // Real sizes of the group's receives, in the order of group.recvs; forgets the group. Call once
  // after wait() or a true test() for each group with receives.
  virtual std::vector<size_t> take_received_bytes(const Pending& pending) = 0;

  // Moves messages along, and shows ranks on other machines that this one lives. Called between
  // pieces of work, every few seconds at least: a rank not heard of for ten seconds counts as dead.
  virtual void progress() = 0;

  // Messages of earlier epochs are dropped from now on; groups still posted are abandoned, as after
  // a failed wait(). Epochs never go back.
  virtual void set_epoch(uint32_t epoch) = 0;
  virtual uint32_t epoch() const = 0;

  // Ranks known to be dead, ascending. Death is final.
  virtual std::vector<int> dead_ranks() = 0;
  // Treats `rank` as dead from now on; a process on this machine is killed, so that it cannot write
  // late messages.
  virtual void declare_dead(int rank) = 0;

  // Keeps `memory` until the transport is destroyed: where buffers of a failed wait() go.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }

 private:
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace colibri
