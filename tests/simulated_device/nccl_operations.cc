// NCCL's operations and groups, for the simulated device: what is refused, and the way of a group
// onto its stream.
#include <algorithm>
#include <utility>

#include "nccl.h"
#include "nccl_handle.h"
#include "nccl_reduce.h"
#include "simulated_stream.h"

namespace colibri_sim {
namespace {

void launch(ncclComm& comm, const IssuedGroup& group) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(group.stream, &status);
  const std::shared_ptr<CommState> state = comm.state;
  const auto take_turn = [state] {
    auto turn = std::make_shared<int>(0);
    state->turns.push_back(turn);
    return turn;
  };
  const bool is_captured = status != cudaStreamCaptureStatusNone;
  // A replay joins the others when it runs; a group issued now has its place now.
  auto turn = std::make_shared<std::shared_ptr<int>>(is_captured ? nullptr : take_turn());
  const cudaError_t error = enqueue(
      group.stream,
      [state, ops = group.ops, turn, take_turn] {
        auto mine = *turn != nullptr ? std::exchange(*turn, nullptr) : take_turn();
        return std::make_unique<GroupWork>(state, ops, std::move(mine));
      },
      "nccl group");
  if (error != cudaSuccess) comm.state->fail(ncclUnhandledCudaError, cudaGetErrorString(error));
}

struct OpenGroup {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<std::pair<ncclComm*, IssuedGroup>> parts;  // one a communicator
};
thread_local OpenGroup group;

size_t bytes_of(const Operation& op) { return op.count * type_bytes(op.type); }

ncclResult_t check_operation(ncclComm* comm, const Operation& op) {
  if (!is_live(comm)) return refuse(ncclInvalidArgument, "a communicator that does not live");
  const CommState& state = *comm->state;
  if (state.async == ncclInProgress) {
    return refuse(ncclInvalidArgument, "used before the last call's ncclInProgress has ended",
                  comm);
  }
  if (state.async != ncclSuccess) return state.async;
  if (op.peer < 0 || op.peer >= state.num_ranks) {
    return refuse(ncclInvalidArgument, "no rank " + std::to_string(op.peer), comm);
  }
  if (type_bytes(op.type) == 0) {
    return refuse(ncclInvalidArgument, "no data type", comm);
  }
  const size_t bytes = bytes_of(op);
  const auto ranks = static_cast<size_t>(state.num_ranks);
  const size_t recv_bytes = op.kind == OpKind::kAllGather ? bytes * ranks : bytes;
  // A broadcast's source is the root's alone.
  const bool reads = op.send != nullptr && (op.kind != OpKind::kBroadcast || op.peer == state.rank);
  const bool writes = op.recv != nullptr;
  if (bytes > 0 && !reads && !writes) return refuse(ncclInvalidArgument, "a null buffer", comm);
  if ((reads && !is_readable(*comm, op.send, bytes)) ||
      (writes && !is_readable(*comm, op.recv, recv_bytes))) {
    return refuse(ncclInvalidArgument, "a buffer that is not memory of the communicator's device",
                  comm);
  }
  return ncclSuccess;
}

ncclResult_t add(ncclComm* comm, const Operation& op, cudaStream_t stream) {
  ncclGroupStart();
  ncclResult_t result = check_operation(comm, op);
  if (result == ncclSuccess) {
    auto part = std::find_if(group.parts.begin(), group.parts.end(),
                             [&](const auto& one) { return one.first == comm; });
    if (part == group.parts.end()) {
      group.parts.push_back({comm, {std::make_shared<std::vector<Operation>>(), stream}});
      part = group.parts.end() - 1;
    }
    if (part->second.stream != stream) {
      result = refuse(ncclInvalidUsage, "one group on two streams (the stand-in takes one)", comm);
    } else {
      std::const_pointer_cast<std::vector<Operation>>(part->second.ops)->push_back(op);
    }
  }
  if (result != ncclSuccess && group.error == ncclSuccess) group.error = result;
  const ncclResult_t ended = ncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}

// NCCL refuses a send to oneself that the group does not also receive.
bool closes_own_pairs(const ncclComm& comm, const std::vector<Operation>& ops) {
  int open = 0;
  for (const Operation& op : ops) {
    if (op.kind != OpKind::kPair || op.peer != comm.state->rank) continue;
    open += op.is_send ? 1 : -1;
  }
  return open == 0;
}

ncclResult_t issue(ncclComm& comm, const IssuedGroup& part) {
  if (!closes_own_pairs(comm, *part.ops)) {
    return refuse(ncclInvalidUsage, "a send to itself without a receive in the same group", &comm);
  }
  comm.issued.push_back(part);
  if (comm.state->is_blocking) {
    pump(comm);
    return comm.state->async;
  }
  comm.state->async = ncclInProgress;
  return ncclInProgress;
}

}  // namespace

void pump(ncclComm& comm) {
  if (comm.bootstrap && comm.bootstrap->step() && comm.state->async == ncclSuccess &&
      comm.issued.empty()) {
    comm.bootstrap.reset();
  }
  if (!comm.issued.empty()) {
    const auto issued = std::exchange(comm.issued, {});
    for (const IssuedGroup& group : issued) launch(comm, group);
    if (comm.state->async == ncclInProgress) comm.state->async = ncclSuccess;
  }
  advance_all_streams();
}

bool is_group_open() { return group.depth > 0; }

bool is_readable(const ncclComm& comm, const void* memory, size_t bytes) {
  return bytes == 0 || is_device_memory(memory, bytes, comm.state->device);
}

}  // namespace colibri_sim

using colibri_sim::add;
using colibri_sim::group;
using colibri_sim::OpenGroup;
using colibri_sim::OpKind;
using colibri_sim::refuse;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return refuse(ncclInvalidUsage, "a group ends that did not start");
  if (--group.depth > 0) return ncclSuccess;
  const OpenGroup ended = std::exchange(group, {});
  if (ended.error != ncclSuccess) return ended.error;
  ncclResult_t result = ncclSuccess;
  for (const auto& [comm, part] : ended.parts) {
    const ncclResult_t one = colibri_sim::issue(*comm, part);
    if (result == ncclSuccess || result == ncclInProgress) {
      result = one == ncclSuccess ? result : one;
    }
  }
  return result;
}

ncclResult_t ncclSend(const void* memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm,
             {.kind = OpKind::kPair,
              .is_send = true,
              .send = memory,
              .count = count,
              .type = type,
              .peer = peer},
             stream);
}

ncclResult_t ncclRecv(void* memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm,
             {.kind = OpKind::kPair, .recv = memory, .count = count, .type = type, .peer = peer},
             stream);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm,
             {.kind = OpKind::kBroadcast,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .peer = root},
             stream);
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm,
             {.kind = OpKind::kAllGather, .send = send, .recv = recv, .count = count, .type = type},
             stream);
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (!colibri_sim::can_reduce(type, op)) {
    return refuse(ncclInvalidArgument, "the stand-in does not reduce this type or operation");
  }
  return add(comm,
             {.kind = OpKind::kAllReduce,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .reduction = op},
             stream);
}

}  // extern "C"
