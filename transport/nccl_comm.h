// One NCCL communicator as a wait-bounded object: groups of sends and receives of device memory on
// a stream, and waits that poll everything that may end them. Built into libcolibri_cuda.so; the
// header needs no CUDA and no NCCL.
//
// Init is non-blocking (blocking = 0) with polling, so that a rank that does not come ends at the
// start deadline with an error and not with a watchdog's exit. The price: NCCL then also issues
// each group behind the caller's back, so post() polls until the group is on its stream. A captured
// step pays that once. NcclOptions::blocks has it the other way round.
//
// Rules that NCCL does not check and this class does not either: both sides post every pair, in
// groups of the same order, with equal sizes; empty pairs too. A pair that one side leaves out
// ends at the deadline of a wait. A send to oneself is received in the same group. post() can be
// captured; a graph then keeps pointers and sizes.
//
// Threads: one. Errors: kTimeout at a deadline, kRankLost for errors of NCCL that another rank's
// death or a link causes, kInternal for misuse that NCCL finds; after any of them the communicator
// is aborted, its stream's work ended, and every further call but abort() fails.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/device.h"
#include "transport/device_link.h"
#include "transport/transport.h"

namespace colibri {

// NCCL's own, in its words a unique id.
using NcclId = LinkId;

struct NcclOptions {
  int rank = 0;
  int num_ranks = 1;
  NcclId id{};
  int64_t start_timeout_ms = 120000;  // init, then the first exchange of every pair
  int64_t post_timeout_ms = 30000;    // until NCCL has put a group on its stream
  bool may_spin = true;               // ranks do not outnumber the cores of this machine
  // Init blocks, and a watchdog leaves the process with 4 and a line on stderr at the start
  // deadline; groups are on their stream when NCCL's call returns.
  bool blocks = false;
  // Called again and again in every wait; throws when the run is over (a rank has died, or says
  // that it aborts). Must not touch streams. May be empty.
  std::function<void()> poll;
  // Whom this rank waits for, as far as it knows: "rank 2 (step 17, layer 3, dispatch)", "" if it
  // does not. For messages. May be empty.
  std::function<std::string()> silent;
};

class NcclComm : public DeviceLink {
 public:
  // Returns once `event` is reached; else as wait() for a stream.
  virtual void wait(const Event& event, const Deadline& deadline, const std::string& what) = 0;
  using DeviceLink::wait;

  // Baselines for benchmarks; the exchange of experts uses groups. `bytes` a rank.
  virtual void all_gather(const void* send, void* recv, size_t bytes, Stream& stream) = 0;
  virtual void broadcast(void* data, size_t bytes, int root, Stream& stream) = 0;

  // Ends all pending work of the communicator; peers notice by their own waits alone.
  virtual void abort() = 0;
  virtual bool is_aborted() const = 0;
};

// True where this build knows NCCL and this machine has its library; without either every function
// below fails.
bool has_nccl();
// "2.28.9": of the library that is used, which may be newer than its header.
std::string nccl_version();

// An id for all ranks of `host`, made by rank 0 and told over `host`'s own messages. All call it.
NcclId share_nccl_id(Transport& host, const Deadline& deadline);
// An id for a rank alone.
NcclId make_nccl_id();

// Joins the communicator on `device`, which is the calling thread's, and exchanges with every rank
// once, so that all connections are there before the first step or capture. Every rank calls it.
// Fails with kTimeout naming who does not come, with kEnvironment for what NCCL finds wrong (two
// ranks on one GPU, no way between two GPUs), with its own words.
std::unique_ptr<NcclComm> make_nccl_comm(Device& device, const NcclOptions& options);

}  // namespace colibri
