// NCCL's calls, for the simulated device (include/simulated_nccl.h).
#include <time.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <set>

#include "nccl.h"
#include "nccl_handle.h"
#include "settings.h"
#include "simulated_nccl.h"

using colibri_sim::Bootstrap;
using colibri_sim::CommState;
using colibri_sim::GroupWork;
using colibri_sim::IdContents;
using colibri_sim::is_live;
using colibri_sim::is_readable;
using colibri_sim::live_comms;
using colibri_sim::pump;
using colibri_sim::refuse;

namespace {

thread_local std::string last_text;

void nap() {
  const timespec moment = {0, 50'000};
  nanosleep(&moment, nullptr);
}

ncclResult_t check_config(const ncclConfig_t* config) {
  if (config == nullptr) return ncclSuccess;
  if (config->magic != 0xcafebeef || config->size != sizeof *config) {
    return refuse(ncclInvalidArgument, "a configuration that NCCL_CONFIG_INITIALIZER did not make");
  }
  if (config->blocking != 0 && config->blocking != 1 && config->blocking != NCCL_CONFIG_UNDEF_INT) {
    return refuse(ncclInvalidArgument, "blocking is neither 0 nor 1");
  }
  return ncclSuccess;
}

ncclResult_t wait_for_init(ncclComm& comm) {
  while (comm.state->async == ncclInProgress) {
    pump(comm);
    if (comm.state->async == ncclInProgress) nap();
  }
  return comm.state->async;
}

ncclResult_t begin(ncclComm_t* out, std::unique_ptr<ncclComm> comm, const ncclConfig_t* config) {
  comm->state->is_blocking = config == nullptr || config->blocking != 0;
  comm->state->fault = colibri_sim::current_nccl_fault();
  cudaGetDevice(&comm->state->device);
  comm->bootstrap = std::make_unique<Bootstrap>(*comm->state);
  ncclComm& made = *comm;
  live_comms().insert(comm.get());
  *out = comm.release();
  return made.state->is_blocking ? wait_for_init(made) : ncclInProgress;
}

bool has_pending(const ncclComm& comm) {
  for (const auto& turn : comm.state->turns) {
    if (!turn.expired()) return true;
  }
  return !comm.issued.empty() || !comm.state->running.empty();
}

void release(ncclComm* comm) {
  comm->state->is_aborted = true;
  colibri_sim::advance_all_streams();
  live_comms().erase(comm);
  delete comm;
}

}  // namespace

namespace colibri_sim {

std::set<const ncclComm*>& live_comms() {
  static auto* comms = new std::set<const ncclComm*>;
  return *comms;
}

ncclResult_t refuse(ncclResult_t result, const std::string& text, ncclComm* comm) {
  std::fprintf(stderr, "simulated NCCL: %s%s\n",
               comm != nullptr ? (comm->state->name() + ": ").c_str() : "", text.c_str());
  last_text = text;
  if (comm != nullptr) comm->state->last_error = text;
  return result;
}

std::string nccl_pending(ncclComm_t comm) {
  std::string text;
  if (!is_live(comm)) return text;
  for (const GroupWork* work : comm->state->running) text += work->pending();
  return text;
}

int num_live_nccl_comms() { return static_cast<int>(live_comms().size()); }

}  // namespace colibri_sim

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm != nullptr && is_live(comm)) last_text = comm->state->last_error;
  return last_text.c_str();
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  if (!colibri_sim::settings().has_nccl) return ncclSystemError;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int32_t num_ids = 0;
  if (id == nullptr) return ncclInvalidArgument;
  std::random_device random;
  const IdContents contents{colibri_sim::kIdMagic, (uint64_t{random()} << 32) | random(),
                            colibri_sim::wire_is_up() ? colibri_sim::wire_rank() : 0,
                            num_ids++ % (colibri_sim::kMaxIds / 2)};
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &contents, sizeof contents);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (out == nullptr || num_ranks < 1 || rank < 0 || rank >= num_ranks) {
    return refuse(ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(num_ranks));
  }
  if (colibri_sim::is_group_open()) return refuse(ncclInvalidUsage, "an init inside a group");
  const ncclResult_t checked = check_config(config);
  if (checked != ncclSuccess) return checked;
  auto comm = std::make_unique<ncclComm>();
  std::memcpy(&comm->state->id, id.internal, sizeof comm->state->id);
  if (comm->state->id.magic != colibri_sim::kIdMagic) {
    return refuse(ncclInvalidArgument, "an id that ncclGetUniqueId did not make");
  }
  comm->state->rank = rank;
  comm->state->num_ranks = num_ranks;
  return begin(out, std::move(comm), config);
}

ncclResult_t ncclCommShrink(ncclComm_t parent, int* excluded, int num_excluded, ncclComm_t* out,
                            ncclConfig_t* config, int flags) {
  if (!is_live(parent) || out == nullptr || (num_excluded > 0 && excluded == nullptr)) {
    return refuse(ncclInvalidArgument, "no communicator to shrink");
  }
  CommState& old = *parent->state;
  const std::set<int> gone(excluded, excluded + num_excluded);
  if (gone.count(old.rank) > 0 || static_cast<int>(gone.size()) >= old.num_ranks) {
    return refuse(ncclInvalidArgument, "a rank that is left out takes no part", parent);
  }
  if ((flags & NCCL_SHRINK_ABORT) != 0) {
    old.is_aborted = true;
    colibri_sim::advance_all_streams();
  } else if (old.async != ncclSuccess) {
    return refuse(ncclInvalidUsage, "shrinking a communicator in error wants NCCL_SHRINK_ABORT",
                  parent);
  }
  auto comm = std::make_unique<ncclComm>();
  CommState& state = *comm->state;
  state.num_ranks = old.num_ranks - static_cast<int>(gone.size());
  int lowest = -1;
  for (int rank = 0; rank < old.num_ranks; ++rank) {
    if (gone.count(rank) > 0) continue;
    if (lowest < 0) lowest = rank;
    if (rank < old.rank) ++state.rank;
  }
  constexpr int32_t kHalf = colibri_sim::kMaxIds / 2;
  state.id = old.id;
  state.id.nonce = old.id.nonce * 31 + static_cast<uint64_t>(++old.num_children);
  state.id.creator = old.peers[static_cast<size_t>(lowest)].world_rank;
  state.id.number = kHalf + static_cast<int32_t>(state.id.nonce % kHalf);
  ncclConfig_t inherited = NCCL_CONFIG_INITIALIZER;
  inherited.blocking = old.is_blocking ? 1 : 0;
  return begin(out, std::move(comm), config != nullptr ? config : &inherited);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!is_live(comm) || error == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  pump(*comm);
  *error = comm->state->async;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!is_live(comm)) return refuse(ncclInvalidArgument, "no communicator");
  while (comm->state->async == ncclSuccess && has_pending(*comm)) {
    pump(*comm);
    nap();
  }
  return comm->state->async == ncclInProgress ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!is_live(comm)) return refuse(ncclInvalidArgument, "destroys no communicator");
  const ncclResult_t result = ncclCommFinalize(comm);
  release(comm);
  return result == ncclInProgress ? ncclSuccess : result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!is_live(comm)) return refuse(ncclInvalidArgument, "aborts no communicator");
  const std::string pending = colibri_sim::nccl_pending(comm);
  if (!pending.empty()) std::fprintf(stderr, "simulated NCCL: aborted:\n%s", pending.c_str());
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!is_live(comm) || count == nullptr) return ncclInvalidArgument;
  *count = comm->state->num_ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (!is_live(comm) || device == nullptr) return ncclInvalidArgument;
  *device = comm->state->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (!is_live(comm) || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->state->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  if (!is_live(comm) || handle == nullptr || !is_readable(*comm, memory, bytes)) {
    return refuse(ncclInvalidArgument, "registers what is no memory of the device");
  }
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return is_live(comm) ? ncclSuccess : ncclInvalidArgument;
}

}  // extern "C"
