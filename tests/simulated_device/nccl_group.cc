#include "nccl_group.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "nccl_reduce.h"

namespace colibri_sim {
namespace {

struct Header {
  uint64_t nonce = 0;
  uint64_t count = 0;
  uint64_t group = 0;
  int32_t kind = 0;
  int32_t type = 0;
  int32_t reduction = 0;
  int32_t from = 0;
};

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kPair:
      return "send and receive";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllGather:
      return "all-gather";
    case OpKind::kAllReduce:
      return "all-reduce";
  }
  return "";
}

size_t bytes_of(const Operation& op) { return op.count * type_bytes(op.type); }

std::string amount(uint64_t count, ncclDataType_t type) {
  return std::to_string(count) + " " + type_name(type);
}

std::byte* at(void* memory, size_t offset) { return static_cast<std::byte*>(memory) + offset; }

void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

GroupWork::GroupWork(std::shared_ptr<CommState> state,
                     std::shared_ptr<const std::vector<Operation>> ops, std::shared_ptr<int> turn)
    : state_(std::move(state)), ops_(std::move(ops)), turn_(std::move(turn)) {}

GroupWork::~GroupWork() { std::erase(state_->running, this); }

bool GroupWork::is_my_turn() {
  auto& turns = state_->turns;
  while (!turns.empty() && turns.front().expired()) turns.pop_front();
  return turns.empty() || turns.front().lock() == turn_;
}

bool GroupWork::step() {
  if (state_->is_aborted) return true;
  // MPI belongs to one thread; another that advances the streams leaves this work where it is.
  if (std::this_thread::get_id() != state_->owner || !is_my_turn()) return false;
  if (!is_started_) start();
  if (std::chrono::steady_clock::now() < not_before_) return false;
  bool are_all_done = true;
  for (auto& leg : legs_) {
    if (!leg->is_done && !leg->is_dead) move_leg(*leg);
    are_all_done = are_all_done && leg->is_done;
  }
  if (!are_all_done) return false;
  finish();
  turn_.reset();
  return true;
}

void GroupWork::start() {
  is_started_ = true;
  number_ = ++state_->num_groups;
  state_->running.push_back(this);
  for (const Operation& op : *ops_) {
    const size_t first_leg = legs_.size();
    add_legs(op);
    plant(first_leg);
  }
  join_own_pairs();
}

void GroupWork::plant(size_t first_leg) {
  const NcclFault& fault = state_->fault;
  const bool is_hit = ++state_->num_ops == fault.op && state_->rank == fault.rank;
  if (!is_hit || fault.kind == FaultKind::kNone) return;
  if (fault.kind == FaultKind::kAbort) ::kill(::getpid(), SIGKILL);
  if (fault.kind == FaultKind::kSlow) {
    not_before_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(fault.slow_ms);
    return;
  }
  for (size_t i = first_leg; i < legs_.size(); ++i) legs_[i]->is_dead = true;
  if (fault.kind == FaultKind::kError) {
    state_->fail(ncclSystemError, "planted error at operation " + std::to_string(fault.op));
  }
}

Leg& GroupWork::add_leg(const Operation& op, bool is_send, int peer, void* to) {
  legs_.push_back(std::make_unique<Leg>());
  Leg& leg = *legs_.back();
  leg.op = &op;
  leg.is_send = is_send;
  leg.peer = peer;
  leg.to = to;
  return leg;
}

// What an operation sends and receives; what stays on this rank is copied here.
void GroupWork::add_legs(const Operation& op) {
  const size_t bytes = bytes_of(op);
  const auto others = [&](auto&& each) {
    for (int peer = 0; peer < state_->num_ranks; ++peer) {
      if (peer != state_->rank) each(peer);
    }
  };
  switch (op.kind) {
    case OpKind::kPair:
      add_leg(op, op.is_send, op.peer, op.recv);
      return;
    case OpKind::kBroadcast:
      if (op.peer != state_->rank) {
        add_leg(op, false, op.peer, op.recv);
        return;
      }
      copy(op.recv, op.send, bytes);
      others([&](int peer) { add_leg(op, true, peer, nullptr); });
      return;
    case OpKind::kAllGather:
      copy(at(op.recv, static_cast<size_t>(state_->rank) * bytes), op.send, bytes);
      others([&](int peer) {
        add_leg(op, true, peer, nullptr);
        add_leg(op, false, peer, at(op.recv, static_cast<size_t>(peer) * bytes));
      });
      return;
    case OpKind::kAllReduce:
      others([&](int peer) {
        add_leg(op, true, peer, nullptr);
        add_leg(op, false, peer, nullptr);
      });
      return;
  }
}

// The n-th send to oneself meets the n-th receive from oneself.
void GroupWork::join_own_pairs() {
  std::vector<Leg*> sends, recvs;
  for (auto& leg : legs_) {
    if (leg->peer == state_->rank && !leg->is_dead) (leg->is_send ? sends : recvs).push_back(&*leg);
  }
  for (size_t i = 0; i < std::min(sends.size(), recvs.size()); ++i) {
    const Operation &from = *sends[i]->op, &to = *recvs[i]->op;
    if (from.count != to.count || from.type != to.type) {
      state_->fail(ncclInvalidUsage, "sends " + amount(from.count, from.type) +
                                         " to itself and receives " + amount(to.count, to.type));
      sends[i]->is_dead = recvs[i]->is_dead = true;
      continue;
    }
    copy(to.recv, from.send, bytes_of(from));
    sends[i]->is_done = recvs[i]->is_done = true;
  }
}

bool GroupWork::is_first_receive(const Leg& leg) const {
  for (const auto& other : legs_) {
    if (&*other == &leg) return true;
    if (!other->is_send && other->peer == leg.peer && other->message == nullptr &&
        !other->is_done) {
      return false;
    }
  }
  return true;
}

void GroupWork::move_leg(Leg& leg) {
  if (leg.peer == state_->rank) return;  // a pair that its group does not close
  const int world = state_->peers[static_cast<size_t>(leg.peer)].world_rank;
  const int tag = tag_of(state_->id, WireKind::kData);
  if (leg.message == nullptr && leg.is_send) {
    const Header header{state_->id.nonce,
                        leg.op->count,
                        number_,
                        static_cast<int32_t>(leg.op->kind),
                        static_cast<int32_t>(leg.op->type),
                        static_cast<int32_t>(leg.op->reduction),
                        state_->rank};
    std::vector<std::byte> bytes(sizeof header + bytes_of(*leg.op));
    std::memcpy(bytes.data(), &header, sizeof header);
    copy(bytes.data() + sizeof header, leg.op->send, bytes_of(*leg.op));
    leg.message = wire_send(world, tag, std::move(bytes));
  } else if (leg.message == nullptr && is_first_receive(leg)) {
    leg.message = wire_take(world, tag);
  }
  if (leg.message == nullptr) return;
  const WireState state = leg.message->test();
  if (state == WireState::kFailed) {
    leg.is_dead = true;
    state_->fail(ncclRemoteError, "lost the connection to rank " + std::to_string(leg.peer));
  }
  if (state != WireState::kDone) return;
  if (leg.is_send) {
    leg.is_done = true;
  } else {
    take(leg);
  }
}

// A message that came: is it what the receive wants?
void GroupWork::take(Leg& leg) {
  const std::vector<std::byte>& bytes = leg.message->bytes();
  Header header;
  std::memcpy(&header, bytes.data(), std::min(sizeof header, bytes.size()));
  const auto kind = static_cast<OpKind>(header.kind);
  const Operation& op = *leg.op;
  if (kind != op.kind || header.count != op.count || header.type != op.type ||
      header.reduction != op.reduction || bytes.size() != sizeof header + bytes_of(op)) {
    leg.is_dead = true;
    const auto type = static_cast<ncclDataType_t>(header.type);
    state_->fail(ncclInvalidUsage,
                 "rank " + std::to_string(leg.peer) + " sent " + amount(header.count, type) + " (" +
                     name_of(kind) + ", its group " + std::to_string(header.group) + "), rank " +
                     std::to_string(state_->rank) + " receives " + amount(op.count, op.type) +
                     " (" + name_of(op.kind) + ", its group " + std::to_string(number_) + ")");
    return;
  }
  if (leg.to != nullptr) copy(leg.to, bytes.data() + sizeof header, bytes_of(op));
  if (op.kind == OpKind::kAllReduce) leg.kept.assign(bytes.begin() + sizeof header, bytes.end());
  leg.is_done = true;
}

// Reductions take the ranks' numbers in ascending rank.
void GroupWork::finish() {
  for (const Operation& op : *ops_) {
    if (op.kind != OpKind::kAllReduce) continue;
    std::vector<const void*> inputs(static_cast<size_t>(state_->num_ranks));
    std::vector<std::byte> own(bytes_of(op));
    copy(own.data(), op.send, own.size());
    inputs[static_cast<size_t>(state_->rank)] = own.data();
    for (const auto& leg : legs_) {
      if (leg->op == &op && !leg->is_send) {
        inputs[static_cast<size_t>(leg->peer)] = leg->kept.data();
      }
    }
    reduce_ranks(inputs, op.recv, op.count, op.type, op.reduction);
  }
}

std::string GroupWork::describe(const Leg& leg) const {
  const Operation& op = *leg.op;
  std::string text = state_->name() + ", group " + std::to_string(number_) + ": ";
  if (op.kind != OpKind::kPair) text += std::string(name_of(op.kind)) + ": ";
  text += (leg.is_send ? "send of " : "receive of ") + amount(op.count, op.type) +
          (leg.is_send ? " to rank " : " from rank ") + std::to_string(leg.peer);
  if (leg.is_dead) return text + ": never ends\n";
  return text + (leg.is_send ? ": not taken\n" : ": nothing came\n");
}

std::string GroupWork::pending() const {
  std::string text;
  for (const auto& leg : legs_) {
    if (!leg->is_done) text += describe(*leg);
  }
  return text;
}

}  // namespace colibri_sim
