// One rank of a run: who it is, how it talks, and how all ranks fail together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "launch/chosen_device.h"
#include "launch/run_config.h"
#include "topology/cluster.h"
#include "topology/machine.h"
#include "transport/transport.h"

namespace colibri {

struct RankContext {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int num_local_ranks = 1;
  std::vector<MachineCore> cores = {};  // of this machine, where ranks share it; empty: not asked
  Transport* transport = nullptr;       // null: alone
  // The machines of all ranks as one, on rank 0 of a run over several hosts that plans; else null.
  std::shared_ptr<const Cluster> hosts = {};
  ChosenDevice device = {};
  Logger log;
  ProgressSink progress = stderr_progress();  // of loading, on rank 0

  bool is_root() const { return rank == 0; }
};

// An error that all ranks know of: only rank 0 prints it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Runs `body` once a rank of this process: alone, as threads over the local transport, or as one
// process of an MPI job; first all ranks agree on their devices. Returns the exit code of rank 0
// where it is known here. An Error that leaves `body` is printed by rank 0 alone and becomes its
// exit code. `on_code` hears the code before MPI is ended, which may not come back after a loss.
int run_ranks(const RunConfig& config, const std::function<int(RankContext&)>& body,
              const std::function<void(int)>& on_code);

// Prints what is in flight in a catch block, if it is this rank's to print, and returns its exit
// code.
int report_exception(int rank);

// The same for what every rank meets alike, before the ranks can talk: rank 0 alone prints it.
int report_exception_alike(int rank);

// Runs `work` on this rank and agrees on the outcome with all others: returns when every rank
// succeeded, else throws one and the same Error everywhere, within `timeout_ms`. `what` names the
// phase.
void agreed(RankContext& context, const std::string& what, int64_t timeout_ms,
            const std::function<void()>& work);

}  // namespace colibri
