#include "transport/local_transport.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "transport/posted_transport.h"

namespace colibri {
namespace {

// A posted receive. The sender fills it under the mailbox's lock and sets is_done last.
struct PostedReceive {
  void* data = nullptr;
  size_t capacity_bytes = 0;
  uint32_t epoch = 0;
  size_t received_bytes = 0;
  std::atomic<bool> is_done{false};

  void fill(const void* bytes, size_t size) {
    const size_t fitting = size < capacity_bytes ? size : capacity_bytes;
    if (fitting > 0) std::memcpy(data, bytes, fitting);
    received_bytes = size;
    is_done.store(true, std::memory_order_release);
  }
};

struct Message {
  uint32_t epoch = 0;
  std::vector<std::byte> bytes;
};

// From one rank to one rank on one channel. Per epoch, either list is empty.
struct Mailbox {
  std::mutex mutex;
  std::deque<Message> messages;
  std::deque<std::shared_ptr<PostedReceive>> receives;
  uint32_t receiver_epoch = 0;
};

}  // namespace

struct LocalFabric::State {
  State(int num_ranks, bool spin)
      : size(num_ranks),
        may_spin(spin),
        mailboxes(static_cast<size_t>(num_ranks * num_ranks * kNumChannels)),
        is_dead(static_cast<size_t>(num_ranks)),
        is_taken(static_cast<size_t>(num_ranks)) {}

  Mailbox& mailbox(int from, int to, Channel channel) {
    const int idx = (from * size + to) * kNumChannels + static_cast<int>(channel);
    return mailboxes[static_cast<size_t>(idx)];
  }

  const int size;
  const bool may_spin;
  std::vector<Mailbox> mailboxes;  // [from, to, channel]
  std::vector<std::atomic<bool>> is_dead;
  std::vector<std::atomic<bool>> is_taken;
};

namespace {

class LocalTransport : public PostedTransport {
 public:
  LocalTransport(int rank, std::shared_ptr<LocalFabric::State> state)
      : PostedTransport(rank, state->size, state->may_spin), state_(std::move(state)) {}

  ~LocalTransport() override {
    for_each_inbox([](Mailbox& box) {
      box.receives.clear();
      box.messages.clear();
    });
    state_->is_dead[static_cast<size_t>(rank())].store(true, std::memory_order_release);
  }

  std::string name() const override { return "local"; }

 protected:
  void start(Operation& op) override {
    if (op.is_send) {
      send(op);
    } else {
      receive(op);
    }
  }

  void poll(Operation& op) override {
    const auto& receive = *static_cast<PostedReceive*>(op.handle.get());
    if (!receive.is_done.load(std::memory_order_acquire)) return;
    op.transferred_bytes = receive.received_bytes;
    op.is_done = true;
  }

  void abandon(Operation& op) override {
    Mailbox& box = state_->mailbox(op.peer, rank(), op.channel);
    const std::lock_guard lock(box.mutex);
    std::erase_if(box.receives, [&](const auto& posted) { return posted == op.handle; });
  }

  void move_along() override {}

  void look_for_dead() override {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank() && state_->is_dead[static_cast<size_t>(peer)].load()) mark_dead(peer);
    }
  }

  void epoch_moved(uint32_t) override {
    for_each_inbox([this](Mailbox& box) {
      box.receiver_epoch = epoch();
      std::erase_if(box.messages, [this](const Message& m) { return m.epoch < epoch(); });
    });
  }

  void kill_rank(int peer) override { state_->is_dead[static_cast<size_t>(peer)].store(true); }

  void check_self_alive() override {
    if (state_->is_dead[static_cast<size_t>(rank())].load()) {
      fail(ErrorKind::kRankLost, "rank ", rank(), " was killed");
    }
  }

 private:
  template <class Function>
  void for_each_inbox(const Function& function) {
    for (int from = 0; from < size(); ++from) {
      for (int channel = 0; channel < kNumChannels; ++channel) {
        Mailbox& box = state_->mailbox(from, rank(), static_cast<Channel>(channel));
        const std::lock_guard lock(box.mutex);
        function(box);
      }
    }
  }

  void send(Operation& op) {
    op.is_done = true;
    op.transferred_bytes = op.bytes;
    Mailbox& box = state_->mailbox(rank(), op.peer, op.channel);
    const std::lock_guard lock(box.mutex);
    if (epoch() < box.receiver_epoch) return;  // stale: dropped
    if (!box.receives.empty() && box.receives.front()->epoch == epoch()) {
      box.receives.front()->fill(op.send_data, op.bytes);
      box.receives.pop_front();
      return;
    }
    const auto* bytes = static_cast<const std::byte*>(op.send_data);
    box.messages.push_back({epoch(), std::vector<std::byte>(bytes, bytes + op.bytes)});
  }

  void receive(Operation& op) {
    auto posted = std::make_shared<PostedReceive>();
    posted->data = op.recv_data;
    posted->capacity_bytes = op.bytes;
    posted->epoch = epoch();
    op.handle = posted;
    Mailbox& box = state_->mailbox(op.peer, rank(), op.channel);
    const std::lock_guard lock(box.mutex);
    // The sender's epochs never fall, so the first message of this epoch is at the front.
    if (box.messages.empty() || box.messages.front().epoch != epoch()) {
      box.receives.push_back(std::move(posted));
      return;
    }
    posted->fill(box.messages.front().bytes.data(), box.messages.front().bytes.size());
    box.messages.pop_front();
  }

  std::shared_ptr<LocalFabric::State> state_;
};

}  // namespace

LocalFabric::LocalFabric(int size, bool may_spin) {
  check(size > 0, "fabric of ", size, " ranks");
  state_ = std::make_shared<State>(size, may_spin);
}

std::unique_ptr<Transport> LocalFabric::endpoint(int rank) {
  check(rank >= 0 && rank < state_->size, "endpoint of rank ", rank, ", want [0, ", state_->size,
        ")");
  check(!state_->is_taken[static_cast<size_t>(rank)].exchange(true), "rank ", rank,
        " has its endpoint already");
  return std::make_unique<LocalTransport>(rank, state_);
}

void LocalFabric::kill(int rank) { state_->is_dead[static_cast<size_t>(rank)].store(true); }

}  // namespace colibri
