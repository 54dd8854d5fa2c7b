// The operations of one group on one communicator of the simulated NCCL, as work on a stream.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "nccl_state.h"
#include "nccl_wire.h"
#include "simulated_stream.h"

namespace colibri_sim {

enum class OpKind : int32_t { kPair, kBroadcast, kAllGather, kAllReduce };

// One call of ncclSend, ncclRecv or a collective.
struct Operation {
  OpKind kind = OpKind::kPair;
  bool is_send = false;  // of a pair; the memory of an empty one may be null
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int peer = 0;  // or the root
  ncclRedOp_t reduction = ncclMin;
};

// One message of an operation.
struct Leg {
  const Operation* op = nullptr;
  bool is_send = false;
  int peer = 0;
  void* to = nullptr;  // of a receive; null: kept in `kept` for the reduction
  std::vector<std::byte> kept;
  std::unique_ptr<WireMessage> message;
  bool is_done = false;
  bool is_dead = false;  // a planted fault or a mismatch: never done
};

class GroupWork : public StreamWork {
 public:
  // `turn` is this group's place among those of its communicator.
  GroupWork(std::shared_ptr<CommState> state, std::shared_ptr<const std::vector<Operation>> ops,
            std::shared_ptr<int> turn);
  ~GroupWork() override;
  bool step() override;
  // What it still waits for, a line each.
  std::string pending() const;

 private:
  bool is_my_turn();
  void start();
  void plant(size_t first_leg);
  void add_legs(const Operation& op);
  Leg& add_leg(const Operation& op, bool is_send, int peer, void* to);
  void join_own_pairs();
  void move_leg(Leg& leg);
  void take(Leg& leg);
  bool is_first_receive(const Leg& leg) const;
  void finish();
  std::string describe(const Leg& leg) const;

  std::shared_ptr<CommState> state_;
  std::shared_ptr<const std::vector<Operation>> ops_;
  std::shared_ptr<int> turn_;
  std::vector<std::unique_ptr<Leg>> legs_;
  uint64_t number_ = 0;
  bool is_started_ = false;
  std::chrono::steady_clock::time_point not_before_{};
};

}  // namespace colibri_sim
