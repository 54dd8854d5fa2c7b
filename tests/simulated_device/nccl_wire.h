// Bytes between the processes behind the simulated NCCL: MPI (nccl_wire_mpi.cc) or, in builds
// without it, nobody (nccl_wire_absent.cc).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace colibri_sim {

// Whether this process can reach others: MPI is started, and offers the tags.
bool wire_is_up();
int wire_rank();

enum class WireState : unsigned char { kPending, kDone, kFailed };

// A message under way; never waits. One dropped while pending stays alive until the process ends.
class WireMessage {
 public:
  virtual ~WireMessage() = default;
  virtual WireState test() = 0;
  virtual std::vector<std::byte>& bytes() = 0;
};

// Done when the receiver has taken it.
std::unique_ptr<WireMessage> wire_send(int world_rank, int tag, std::vector<std::byte> bytes);
// The next message from this rank (-1: from any) under this tag, once it is there.
std::unique_ptr<WireMessage> wire_take(int world_rank, int tag);

}  // namespace colibri_sim
