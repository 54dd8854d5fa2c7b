// --ranks N: this process becomes a thin launcher of mpirun, keeps the terminal, forwards signals
// as a drain and returns rank 0's exit code. The other half, what each rank does, is rank_link.h.
//
// Reasons, each seen with Open MPI 4.1.4: plain mpirun kills the job when one rank dies; with
// recovery it returns 0 whatever the ranks return; it takes two ranks for a stop 1-2 s after TERM;
// it does not start three ranks on two cores unless told; it reads an argument ":" as the start of
// another program.
#pragma once

#include <cstdint>
#include <string>

namespace colibri {

struct LaunchOptions {
  int64_t drain_ms = 30000;  // from the first TERM or INT to the end of all ranks
  int64_t linger_ms = 1500;  // from the end of rank 0 to the end of all ranks
  // INT means something else to rank 0 than a drain: it is passed on and changes nothing here.
  bool passes_interrupts = false;
};

// Starts `mpirun -n num_ranks` with this same program and arguments, less `--ranks num_ranks`, and
// waits for the end of the job; prints "starting N ranks" on stderr at once. The ranks get this
// process's stdout and stderr, rank 0 its stdin and foreground process group too, so that the
// terminal works as without ranks; what mpirun itself says is shown only if rank 0 brings no exit
// code. The first TERM, INT or HUP asks rank 0 to drain, a second one ends the job. No process of
// the job is left when it returns, stopped ones included; if this process is killed, mpirun ends
// the job within seconds.
//
// Returns rank 0's code; 4, with a line on stderr, if it ended without one. Fails with kEnvironment
// naming the Debian package where mpirun is missing. The process must have no other children and a
// single thread.
int run_under_mpirun(int argc, char** argv, int num_ranks, const LaunchOptions& options = {});

}  // namespace colibri
