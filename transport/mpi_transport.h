// Ranks are processes; bytes travel by MPI, host memory only. MPI is used as a carrier that may
// lose members: after start only Isend, Irecv, Iprobe, Test and Cancel, errors returned; nothing
// here is collective but start and finalize, and a watchdog bounds these two. No MPI header is
// needed.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace colibri {

struct MpiOptions {
  int64_t start_timeout_ms = 120000;    // of MPI_Init and of the first messages
  int64_t finalize_timeout_ms = 10000;  // of MPI_Finalize
  bool may_spin = true;                 // ranks do not outnumber the cores of this machine
  bool watch_processes = true;          // false (tests): heartbeats among all ranks
  int64_t heartbeat_ms = 1000;
  int64_t heartbeat_overdue_ms = 10000;
};

class MpiTransport : public Transport {
 public:
  // A rank was lost, messages are still under way, or the run ended with 4: MPI is not ended, and
  // the process must leave by _exit.
  virtual bool lost() const = 0;

  // Ends MPI; the last call. All ranks call it, with the code they have agreed on, or none. Leaves
  // the process with `exit_code` (4 for 0) when the others do not come within the timeout. Does
  // nothing but make lost() true for exit code 4 (a rank that is lost or late does not come), and
  // nothing at all after a loss.
  virtual void finalize(int exit_code) = 0;
};

// Starts MPI, once a process. Call it only where RankInfo says a launcher started this process. A
// start that does not end in time leaves the process with 4 and a line on stderr. Fails with
// kUnsupported where colibri is built without MPI, with kTimeout naming ranks that do not come.
std::unique_ptr<MpiTransport> make_mpi_transport(const MpiOptions& options);

// True where this build has MPI.
bool has_mpi();

}  // namespace colibri
