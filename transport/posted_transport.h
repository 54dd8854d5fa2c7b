// What every host transport shares: the table of posted groups, waiting with a deadline, naming who
// is pending, and the rules of epochs and of dead ranks. A carrier (local, MPI) only starts, polls
// and abandons single operations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/deadline.h"
#include "transport/transport.h"

namespace colibri {

class PostedTransport : public Transport {
 public:
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Place place() const override { return Place::kHost; }

  Pending post(const Group& group, Stream* stream) override;
  bool test(const Pending& pending) override;
  void wait(std::span<const Pending> all, const Deadline& deadline,
            const std::string& what) override;
  std::vector<size_t> take_received_bytes(const Pending& pending) override;
  void progress() override;
  void set_epoch(uint32_t epoch) override;
  uint32_t epoch() const override { return epoch_; }
  std::vector<int> dead_ranks() override;
  void declare_dead(int rank) override;

 protected:
  // One send or receive of a group. `handle` is the carrier's.
  struct Operation {
    bool is_send = false;
    int peer = 0;
    Channel channel = Channel::kControl;
    const void* send_data = nullptr;
    void* recv_data = nullptr;
    size_t bytes = 0;  // of a receive: its capacity
    bool is_done = false;
    size_t transferred_bytes = 0;  // done: real size, more than `bytes` if it did not fit
    std::shared_ptr<void> handle = {};
  };

  // may_spin: ranks do not outnumber the cores they share.
  PostedTransport(int rank, int size, bool may_spin);

  // Carrier's part; none may block.
  virtual void start(Operation& op) = 0;
  virtual void poll(Operation& op) = 0;  // sets is_done and transferred_bytes
  virtual void abandon(Operation& op) = 0;
  virtual void move_along() = 0;     // progress without a particular operation
  virtual void look_for_dead() = 0;  // calls mark_dead; at most once a millisecond
  virtual void epoch_moved(uint32_t from) = 0;
  virtual void kill_rank(int rank) = 0;  // of declare_dead: makes sure it is dead
  virtual void check_self_alive() {}

  void mark_dead(int rank);
  bool is_dead(int rank) const { return is_dead_[static_cast<size_t>(rank)]; }
  bool any_dead() const { return num_dead_ > 0; }

 private:
  struct PostedGroup {
    std::vector<Operation> ops;
    size_t num_sends = 0;
    size_t num_done = 0;
    int passes_after_loss = 0;
    bool is_done() const { return num_done == ops.size(); }
  };

  void check_peer(int peer) const;
  PostedGroup* find(const Pending& pending);
  bool poll_group(PostedGroup& group, const std::string& what);
  void poll_liveness();
  void forget_if_done(const Pending& pending, const PostedGroup& group);
  void fail_if_lost(PostedGroup& group, const std::string& what);
  void abandon_all(std::span<const Pending> all);
  [[noreturn]] void fail_timeout(std::span<const Pending> all, const Deadline& deadline,
                                 const std::string& what);

  int rank_, size_;
  bool may_spin_;
  uint32_t epoch_ = 0;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, PostedGroup> groups_;
  std::unordered_set<uint64_t> abandoned_;
  std::vector<bool> is_dead_;
  int num_dead_ = 0;
  Deadline next_liveness_ = Deadline::after_ms(0);
};

}  // namespace colibri
