// The handle of the simulated NCCL, and what its two files of calls share.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nccl.h"
#include "nccl_bootstrap.h"
#include "nccl_group.h"
#include "nccl_state.h"

namespace colibri_sim {

// A group whose work waits for ncclCommGetAsyncError.
struct IssuedGroup {
  std::shared_ptr<const std::vector<Operation>> ops;
  cudaStream_t stream = nullptr;
};

}  // namespace colibri_sim

struct ncclComm {
  std::shared_ptr<colibri_sim::CommState> state = std::make_shared<colibri_sim::CommState>();
  std::unique_ptr<colibri_sim::Bootstrap> bootstrap;
  std::vector<colibri_sim::IssuedGroup> issued;
};

namespace colibri_sim {

std::set<const ncclComm*>& live_comms();
inline bool is_live(const ncclComm* comm) { return live_comms().count(comm) > 0; }

// Writes why to stderr and where ncclGetLastError finds it; returns `result`.
ncclResult_t refuse(ncclResult_t result, const std::string& text, ncclComm* comm = nullptr);

// Lets everything of the communicator and of all streams go on.
void pump(ncclComm& comm);

bool is_group_open();
bool is_readable(const ncclComm& comm, const void* memory, size_t bytes);

}  // namespace colibri_sim
