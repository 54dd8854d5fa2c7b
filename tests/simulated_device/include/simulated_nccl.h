// The simulated NCCL, and what tests ask of it beyond NCCL's own calls.
//
// Ranks are processes that have started MPI before; bytes travel as synchronous sends on
// MPI_COMM_WORLD, by host memory, under tags from 2^30 up, which colibri's own messages never reach
// (a communicator of MPI's own would take a call that waits for all ranks). One rank alone needs no
// MPI. Nothing blocks but a blocking init, ncclCommFinalize and ncclCommDestroy: work goes on
// whenever the streams of the simulated device do, on the thread that made the communicator.
//
//   * A send is done when the peer takes it, whatever its size; so is nothing that the peer does
//     not answer. The operations of one group go on together, groups of one communicator one after
//     the other in the order of their issue.
//   * The n-th send to a rank meets that rank's n-th receive. Another count, type or kind of
//     operation is ncclInvalidUsage as the receiver's asynchronous error, with a text that names
//     both sides; its work then never ends until the communicator is aborted, as on a GPU.
//   * With blocking = 0, init and ncclGroupEnd give ncclInProgress, and the work of a group is on
//     its stream only after ncclCommGetAsyncError has given ncclSuccess.
//   * ncclCommAbort ends pending work and writes to stderr what each operation waited for.
//
// COLIBRI_SIM_NCCL_FAULT="rank=R,op=N,kind=K" plants a fault at the N-th operation (from 1, in the
// order of running, sends and receives alike) of rank R: K is error (asynchronous error), abort
// (the process is killed), slow:MS (waits so long first) or silent (nothing happens, ever).
#pragma once

#include <string>

#include "nccl.h"

namespace colibri_sim {

// What the communicator's started operations wait for, one a line, both ranks named; "" when
// nothing is pending.
std::string nccl_pending(ncclComm_t comm);

// In place of the environment's fault, for communicators made from now on; "" for none. Fails by
// abort() when it cannot be read.
void set_nccl_fault(const std::string& text);

// Communicators that were neither destroyed nor aborted.
int num_live_nccl_comms();

}  // namespace colibri_sim
