// Who am I, out of the environment alone: no MPI call, so that a process that runs alone never
// starts MPI.
#pragma once

#include <functional>
#include <string>

namespace colibri {

struct RankInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;       // among the ranks of this job on this machine
  int num_local_ranks = 1;  // of this job on this machine
  int node_idx = -1;        // -1: the launcher does not say
  std::string launcher;     // "mpirun", "srun", "pmi"; empty: started by nobody

  bool is_alone() const { return size == 1; }
  bool started_by_launcher() const { return !launcher.empty(); }
};

// Reads one variable; null when it is not set. std::getenv is one.
using EnvironmentLookup = std::function<const char*(const char*)>;

// Knows Open MPI (OMPI_COMM_WORLD_*), Slurm's srun (SLURM_PROCID inside a step) and PMI (PMI_RANK);
// in a Slurm batch script, which is no step, a process is alone. Fails with kInput naming the
// variable for values that are no numbers or contradict each other.
RankInfo find_rank(const EnvironmentLookup& lookup);

// The same number on every rank of one machine and pid namespace, different on others: peers of
// equal hash can watch each other's processes.
unsigned long long host_hash();

}  // namespace colibri
