#include "transport/posted_transport.h"

#include <algorithm>

#include "base/backoff.h"
#include "base/error.h"

namespace colibri {
namespace {

// A dead rank's last messages may still lie in the carrier; each pass takes more of them out.
constexpr int kPassesAfterLoss = 8;

// The answer to "is anyone dead" costs a system call, so it is asked for this often.
constexpr int64_t kLivenessPeriodMs = 1;

}  // namespace

PostedTransport::PostedTransport(int rank, int size, bool may_spin)
    : rank_(rank), size_(size), may_spin_(may_spin), is_dead_(static_cast<size_t>(size)) {}

void PostedTransport::check_peer(int peer) const {
  check(peer >= 0 && peer < size_, "rank ", rank_, ": peer ", peer, ", want [0, ", size_, ")");
}

Pending PostedTransport::post(const Group& group, Stream*) {
  check_self_alive();
  for (const SendOp& send : group.sends) check_peer(send.peer);
  for (const RecvOp& recv : group.recvs) check_peer(recv.peer);
  const Pending pending{next_id_++};
  PostedGroup& posted = groups_[pending.id];
  posted.num_sends = group.sends.size();
  posted.ops.reserve(group.sends.size() + group.recvs.size());
  for (const SendOp& send : group.sends) {
    posted.ops.push_back({.is_send = true,
                          .peer = send.peer,
                          .channel = send.channel,
                          .send_data = send.data,
                          .bytes = send.bytes});
  }
  for (const RecvOp& recv : group.recvs) {
    posted.ops.push_back({.peer = recv.peer,
                          .channel = recv.channel,
                          .recv_data = recv.data,
                          .bytes = recv.capacity_bytes});
  }
  // Receives first, so that what a rank sends to itself or a fast peer answers finds them posted.
  for (size_t i = 0; i < posted.ops.size(); ++i) {
    Operation& op = posted.ops[(i + posted.num_sends) % posted.ops.size()];
    if (!op.is_send || !is_dead(op.peer)) start(op);
    if (op.is_done) ++posted.num_done;
  }
  return pending;
}

PostedTransport::PostedGroup* PostedTransport::find(const Pending& pending) {
  const auto found = groups_.find(pending.id);
  if (found != groups_.end()) return &found->second;
  check(pending.id > 0 && pending.id < next_id_, "rank ", rank_, ": group ", pending.id,
        " was never posted");
  check(!abandoned_.contains(pending.id), "rank ", rank_, ": group ", pending.id,
        " was abandoned after a failure or by a new epoch");
  return nullptr;
}

bool PostedTransport::poll_group(PostedGroup& group, const std::string& what) {
  for (Operation& op : group.ops) {
    if (op.is_done || (op.is_send && op.handle == nullptr)) continue;  // done or never started
    poll(op);
    if (op.is_done) ++group.num_done;
  }
  if (!group.is_done()) return false;
  for (const Operation& op : group.ops) {
    if (op.transferred_bytes <= op.bytes) continue;
    fail(ErrorKind::kInternal, "rank ", rank_, ": message of ", op.transferred_bytes,
         " bytes from rank ", op.peer, " on channel ", to_string(op.channel),
         ", the receive has room for ", op.bytes, " (", what, ")");
  }
  return true;
}

void PostedTransport::poll_liveness() {
  if (!next_liveness_.expired()) return;
  check_self_alive();
  look_for_dead();
  next_liveness_ = Deadline::after_ms(kLivenessPeriodMs);
}

void PostedTransport::forget_if_done(const Pending& pending, const PostedGroup& group) {
  if (group.ops.size() == group.num_sends) groups_.erase(pending.id);
}

void PostedTransport::fail_if_lost(PostedGroup& group, const std::string& what) {
  if (num_dead_ == 0) return;
  for (const Operation& op : group.ops) {
    if (op.is_done || !is_dead(op.peer)) continue;
    if (++group.passes_after_loss < kPassesAfterLoss) return;
    fail(ErrorKind::kRankLost, "rank ", op.peer, " is lost; rank ", rank_, " waited for ", what,
         " (", op.is_send ? "send on" : "receive on", " channel ", to_string(op.channel), ")");
  }
}

bool PostedTransport::test(const Pending& pending) {
  PostedGroup* group = find(pending);
  if (group == nullptr) return true;
  try {
    if (poll_group(*group, "test")) {
      forget_if_done(pending, *group);
      return true;
    }
    poll_liveness();
    fail_if_lost(*group, "a message");
  } catch (...) {
    abandon_all({&pending, 1});
    throw;
  }
  return false;
}

void PostedTransport::wait(std::span<const Pending> all, const Deadline& deadline,
                           const std::string& what) {
  Backoff backoff(may_spin_);
  try {
    for (;;) {
      const bool is_last_pass = deadline.expired();
      bool all_done = true;
      for (const Pending& pending : all) {
        PostedGroup* group = find(pending);
        if (group != nullptr && !poll_group(*group, what)) all_done = false;
      }
      if (all_done) break;
      poll_liveness();
      for (const Pending& pending : all) {
        if (PostedGroup* group = find(pending)) fail_if_lost(*group, what);
      }
      if (is_last_pass) fail_timeout(all, deadline, what);
      backoff.pause();
    }
  } catch (...) {
    abandon_all(all);
    throw;
  }
  for (const Pending& pending : all) {
    if (PostedGroup* group = find(pending)) forget_if_done(pending, *group);
  }
}

void PostedTransport::fail_timeout(std::span<const Pending> all, const Deadline& deadline,
                                   const std::string& what) {
  std::string names;
  for (const Pending& pending : all) {
    const PostedGroup* group = find(pending);
    if (group == nullptr) continue;
    for (const Operation& op : group->ops) {
      if (op.is_done) continue;
      const std::string name = "rank " + std::to_string(op.peer) + " (" +
                               (op.is_send ? "send on " : "receive on ") + to_string(op.channel) +
                               ")";
      if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
    }
  }
  fail(ErrorKind::kTimeout, "rank ", rank_, ": no ", what, " after ", deadline.waited_ms(),
       " ms; still pending: ", names);
}

void PostedTransport::abandon_all(std::span<const Pending> all) {
  for (const Pending& pending : all) {
    const auto found = groups_.find(pending.id);
    if (found == groups_.end()) continue;
    // A group that got all it wanted stays: its sizes can still be taken.
    const bool fits = std::all_of(
        found->second.ops.begin(), found->second.ops.end(),
        [](const Operation& op) { return op.is_done && op.transferred_bytes <= op.bytes; });
    if (fits) continue;
    for (Operation& op : found->second.ops) {
      if (!op.is_done && op.handle != nullptr) abandon(op);
    }
    groups_.erase(found);
    abandoned_.insert(pending.id);
  }
}

std::vector<size_t> PostedTransport::take_received_bytes(const Pending& pending) {
  PostedGroup* group = find(pending);
  check(group != nullptr && group->is_done(), "rank ", rank_, ": sizes of group ", pending.id,
        " asked for ", group == nullptr ? "twice" : "before it is done");
  std::vector<size_t> sizes;
  sizes.reserve(group->ops.size() - group->num_sends);
  for (size_t i = group->num_sends; i < group->ops.size(); ++i) {
    sizes.push_back(group->ops[i].transferred_bytes);
  }
  groups_.erase(pending.id);
  return sizes;
}

void PostedTransport::progress() {
  check_self_alive();
  move_along();
  poll_liveness();
}

void PostedTransport::set_epoch(uint32_t epoch) {
  if (epoch == epoch_) return;
  check(epoch > epoch_, "rank ", rank_, ": epoch ", epoch, " after epoch ", epoch_);
  std::vector<Pending> all;
  for (const auto& [id, group] : groups_) all.push_back({id});
  abandon_all(all);
  groups_.clear();
  const uint32_t from = epoch_;
  epoch_ = epoch;
  epoch_moved(from);
}

std::vector<int> PostedTransport::dead_ranks() {
  look_for_dead();
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    if (is_dead(peer)) ranks.push_back(peer);
  }
  return ranks;
}

void PostedTransport::mark_dead(int rank) {
  if (is_dead(rank)) return;
  is_dead_[static_cast<size_t>(rank)] = true;
  ++num_dead_;
}

void PostedTransport::declare_dead(int rank) {
  check_peer(rank);
  check(rank != rank_, "rank ", rank_, " declares itself dead");
  if (is_dead(rank)) return;
  kill_rank(rank);
  mark_dead(rank);
}

}  // namespace colibri
