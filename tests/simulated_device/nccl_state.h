// What stands behind one ncclComm_t of the simulated NCCL.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"
#include "nccl_fault.h"

namespace colibri_sim {

// Written into an ncclUniqueId: who made it, and which messages belong to it.
struct IdContents {
  uint64_t magic = 0;
  uint64_t nonce = 0;
  int32_t creator = 0;  // rank in MPI_COMM_WORLD
  int32_t number = 0;   // of the creator's ids, below kMaxIds
};
inline constexpr int32_t kMaxIds = 4096;  // the upper half is for communicators made by shrinking
inline constexpr uint64_t kIdMagic = 0x6E63636C73696Du;

enum class WireKind : int { kHello = 0, kVerdict = 1, kData = 2 };
int tag_of(const IdContents& id, WireKind kind);

struct PeerRecord {
  int32_t world_rank = 0;
  int32_t device = 0;
  unsigned char uuid[16] = {};
};

class GroupWork;

struct CommState {
  IdContents id;
  int rank = 0, num_ranks = 1, device = 0;
  bool is_blocking = true;
  std::thread::id owner = std::this_thread::get_id();
  std::vector<PeerRecord> peers;  // by rank, once init is done
  ncclResult_t async = ncclInProgress;
  std::string last_error;
  bool is_aborted = false;
  NcclFault fault;
  uint64_t num_ops = 0;     // started
  uint64_t num_groups = 0;  // started
  int num_children = 0;
  std::deque<std::weak_ptr<int>> turns;  // groups in the order of their issue; expired: done
  std::vector<GroupWork*> running;

  // Keeps the first error; its text goes to stderr.
  void fail(ncclResult_t result, const std::string& text);
  std::string name() const;  // "rank 1 of 3"
};

std::string type_name(ncclDataType_t type);
size_t type_bytes(ncclDataType_t type);

}  // namespace colibri_sim
