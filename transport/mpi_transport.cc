#include "transport/mpi_transport.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/error.h"
#include "transport/liveness.h"
#include "transport/mpi_session.h"
#include "transport/posted_transport.h"

namespace colibri {
namespace {

// A tag is epoch * kTagsPerEpoch + channel, the epoch modulo what fits. The last one is for
// heartbeats, which have no epoch: they use epoch 0.
constexpr int kTagsPerEpoch = kNumChannels + 1;
constexpr int kHeartbeatTag = kNumChannels;

// Late messages are looked for under this many past epochs; older ones came long ago or never.
constexpr uint32_t kEpochsDrained = 4;

int tag_upper_bound() {
  int* value = nullptr;
  int is_set = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &is_set);
  return is_set != 0 ? *value : 32767;  // what every MPI gives
}

// The bytes of a heartbeat: none.
struct Beat {
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Request receive = MPI_REQUEST_NULL;
};

class Carrier : public PostedTransport {
 public:
  Carrier(int own_rank, int num_ranks, const MpiOptions& options)
      : PostedTransport(own_rank, num_ranks, options.may_spin),
        options_(options),
        num_tag_epochs_(static_cast<uint32_t>(tag_upper_bound() / kTagsPerEpoch) - 1) {}

  std::string name() const override { return "mpi"; }
  void meet();
  bool lost() const { return any_dead() || num_stuck_ > 0; }

 protected:
  void start(Operation& op) override;
  void poll(Operation& op) override;
  void abandon(Operation& op) override;
  void move_along() override;
  void look_for_dead() override;
  void epoch_moved(uint32_t from) override { drain_late_messages(from); }
  void kill_rank(int rank) override {
    if (watch_) watch_->kill(rank);
  }

 private:
  int tag(uint32_t epoch, Channel channel) const {
    // Epoch 0 of the tags is the heartbeats', so that no wrap meets them.
    const auto slot = static_cast<int>(epoch % num_tag_epochs_) + 1;
    return slot * kTagsPerEpoch + static_cast<int>(channel);
  }
  void beat();
  void drain_late_messages(uint32_t newest);
  void drain(int peer, int tag);
  void test_abandoned();

  MpiOptions options_;
  uint32_t num_tag_epochs_;
  std::unique_ptr<ProcessWatch> watch_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::vector<Beat> beats_;                          // beside heartbeat_->ranks()
  std::vector<std::shared_ptr<MPI_Request>> stuck_;  // abandoned, still MPI's
  int num_stuck_ = 0;
};

// Who is who; the first messages, before anything can be watched.
void Carrier::meet() {
  const auto num_ranks = static_cast<size_t>(size());
  const auto identities = std::make_shared<std::vector<PeerIdentity>>(num_ranks);
  keep(identities);
  const auto own = std::make_shared<PeerIdentity>(own_identity());
  keep(own);
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (int peer = 0; peer < size(); ++peer) {
    PeerIdentity& identity = (*identities)[static_cast<size_t>(peer)];
    if (peer == rank()) {
      identity = *own;
      continue;
    }
    sends.push_back({peer, Channel::kStartup, own.get(), sizeof(PeerIdentity)});
    recvs.push_back({peer, Channel::kStartup, &identity, sizeof(PeerIdentity)});
  }
  if (!recvs.empty()) {
    const Pending pending = post({sends, recvs}, nullptr);
    wait({&pending, 1}, Deadline::after_ms(options_.start_timeout_ms), "first message");
    take_received_bytes(pending);
  }
  std::vector<int> far_ranks;
  if (options_.watch_processes) watch_ = std::make_unique<ProcessWatch>(rank(), *identities);
  const uint64_t here = own->host_hash;
  for (int peer = 0; peer < size(); ++peer) {
    const bool is_here = (*identities)[static_cast<size_t>(peer)].host_hash == here;
    if (peer != rank() && (!is_here || !watch_)) far_ranks.push_back(peer);
  }
  beats_.resize(far_ranks.size());
  heartbeat_ = std::make_unique<Heartbeat>(
      far_ranks,
      Heartbeat::Periods{std::chrono::milliseconds(options_.heartbeat_ms),
                         std::chrono::milliseconds(options_.heartbeat_overdue_ms)},
      Heartbeat::Clock::now());
}

void Carrier::start(Operation& op) {
  constexpr size_t kMaxBytes = std::numeric_limits<int>::max();
  if (op.is_send && op.bytes > kMaxBytes) {
    fail(ErrorKind::kUnsupported, "rank ", rank(), ": message of ", op.bytes, " bytes to rank ",
         op.peer, " on channel ", to_string(op.channel), ", MPI takes at most ", kMaxBytes,
         "; send it in parts (fewer tokens in a step)");
  }
  auto request = std::make_shared<MPI_Request>(MPI_REQUEST_NULL);
  const int count = static_cast<int>(std::min(op.bytes, kMaxBytes));
  const int op_tag = tag(epoch(), op.channel);
  const int code = op.is_send ? MPI_Isend(op.send_data, count, MPI_BYTE, op.peer, op_tag,
                                          MPI_COMM_WORLD, request.get())
                              : MPI_Irecv(op.recv_data, count, MPI_BYTE, op.peer, op_tag,
                                          MPI_COMM_WORLD, request.get());
  if (code != MPI_SUCCESS) {
    // A carrier that cannot reach a peer has lost it; the wait says so by name.
    mark_dead(op.peer);
    return;
  }
  op.handle = std::move(request);
  poll(op);  // a small send is done at once, and a waiting message is taken
}

void Carrier::poll(Operation& op) {
  if (op.handle == nullptr) return;  // never started: the peer is dead
  int is_done = 0;
  MPI_Status status;
  const int code = MPI_Test(static_cast<MPI_Request*>(op.handle.get()), &is_done, &status);
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  if (error_class != MPI_SUCCESS && error_class != MPI_ERR_TRUNCATE) {
    mark_dead(op.peer);
    op.handle.reset();
    return;
  }
  if (is_done == 0 && error_class == MPI_SUCCESS) return;
  op.is_done = true;
  op.transferred_bytes = op.bytes;
  if (op.is_send) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  op.transferred_bytes = static_cast<size_t>(std::max(bytes, 0));
  if (error_class == MPI_ERR_TRUNCATE) {
    op.transferred_bytes = std::max(op.transferred_bytes, op.bytes + 1);
  }
}

void Carrier::abandon(Operation& op) {
  auto request = std::static_pointer_cast<MPI_Request>(op.handle);
  if (!op.is_send) MPI_Cancel(request.get());
  int is_done = 0;
  MPI_Test(request.get(), &is_done, MPI_STATUS_IGNORE);
  if (is_done == 0) {
    stuck_.push_back(std::move(request));
    num_stuck_ = static_cast<int>(stuck_.size());
  }
}

void Carrier::test_abandoned() {
  std::erase_if(stuck_, [](const auto& request) {
    int is_done = 0;
    return MPI_Test(request.get(), &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS || is_done != 0;
  });
  num_stuck_ = static_cast<int>(stuck_.size());
}

void Carrier::move_along() {
  int is_there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, kHeartbeatTag, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
}

void Carrier::look_for_dead() {
  if (watch_) {
    for (const int ended : watch_->take_ended()) mark_dead(ended);
  }
  if (!stuck_.empty()) test_abandoned();
  if (heartbeat_ && !beats_.empty()) beat();
}

void Carrier::beat() {
  const auto now = Heartbeat::Clock::now();
  const bool is_due = heartbeat_->take_due(now);
  for (size_t i = 0; i < beats_.size(); ++i) {
    const int peer = heartbeat_->ranks()[i];
    if (is_dead(peer)) continue;
    Beat& beat = beats_[i];
    int is_done = 0;
    if (beat.receive == MPI_REQUEST_NULL) {
      MPI_Irecv(nullptr, 0, MPI_BYTE, peer, kHeartbeatTag, MPI_COMM_WORLD, &beat.receive);
    }
    MPI_Test(&beat.receive, &is_done, MPI_STATUS_IGNORE);
    if (is_done != 0) heartbeat_->heard(peer, now);
    if (!is_due) continue;
    if (beat.send != MPI_REQUEST_NULL) MPI_Test(&beat.send, &is_done, MPI_STATUS_IGNORE);
    if (beat.send != MPI_REQUEST_NULL) continue;  // the last one is still under way
    MPI_Isend(nullptr, 0, MPI_BYTE, peer, kHeartbeatTag, MPI_COMM_WORLD, &beat.send);
  }
  for (const int late : heartbeat_->overdue(now)) {
    if (!is_dead(late)) mark_dead(late);
  }
}

void Carrier::drain_late_messages(uint32_t newest) {
  for (uint32_t back = 0; back < kEpochsDrained && back <= newest; ++back) {
    for (int peer = 0; peer < size(); ++peer) {
      for (int channel = 0; channel < kNumChannels && !is_dead(peer); ++channel) {
        drain(peer, tag(newest - back, static_cast<Channel>(channel)));
      }
    }
  }
}

// Takes messages that nobody waits for any more, so that their senders' buffers come free.
void Carrier::drain(int peer, int late_tag) {
  for (;;) {
    int is_there = 0, bytes = 0;
    MPI_Status status;
    MPI_Iprobe(peer, late_tag, MPI_COMM_WORLD, &is_there, &status);
    if (is_there == 0) return;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    const auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
    auto request = std::make_shared<MPI_Request>(MPI_REQUEST_NULL);
    MPI_Irecv(memory->data(), bytes, MPI_BYTE, peer, late_tag, MPI_COMM_WORLD, request.get());
    int is_done = 0;
    MPI_Test(request.get(), &is_done, MPI_STATUS_IGNORE);
    if (is_done != 0) continue;
    keep(memory);
    stuck_.push_back(std::move(request));
    num_stuck_ = static_cast<int>(stuck_.size());
  }
}

// What callers hold: the carrier behind the interface that adds MPI's start and end.
class MpiRanks : public MpiTransport {
 public:
  explicit MpiRanks(const MpiOptions& options) : options_(options) {
    start_mpi(options.start_timeout_ms);
    int own_rank = 0, num_ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    carrier_ = std::make_unique<Carrier>(own_rank, num_ranks, options);
    carrier_->meet();
  }

  int rank() const override { return carrier_->rank(); }
  int size() const override { return carrier_->size(); }
  std::string name() const override { return carrier_->name(); }
  Place place() const override { return carrier_->place(); }
  Pending post(const Group& group, Stream* stream) override {
    return carrier_->post(group, stream);
  }
  bool test(const Pending& pending) override { return carrier_->test(pending); }
  void wait(std::span<const Pending> all, const Deadline& deadline,
            const std::string& what) override {
    carrier_->wait(all, deadline, what);
  }
  std::vector<size_t> take_received_bytes(const Pending& pending) override {
    return carrier_->take_received_bytes(pending);
  }
  void progress() override { carrier_->progress(); }
  void set_epoch(uint32_t epoch) override { carrier_->set_epoch(epoch); }
  uint32_t epoch() const override { return carrier_->epoch(); }
  std::vector<int> dead_ranks() override { return carrier_->dead_ranks(); }
  void declare_dead(int rank) override { carrier_->declare_dead(rank); }
  bool lost() const override { return has_given_up_ || carrier_->lost(); }
  void finalize(int exit_code) override {
    carrier_->dead_ranks();
    // A rank that was late does not come to the end either.
    has_given_up_ = has_given_up_ || exit_code == colibri::exit_code(ErrorKind::kTimeout);
    if (lost()) return;
    carrier_->set_epoch(epoch() + 1);  // takes back what is still posted
    finalize_mpi(options_.finalize_timeout_ms, exit_code);
  }

 private:
  MpiOptions options_;
  std::unique_ptr<Carrier> carrier_;
  bool has_given_up_ = false;
};

}  // namespace

std::unique_ptr<MpiTransport> make_mpi_transport(const MpiOptions& options) {
  return std::make_unique<MpiRanks>(options);
}

bool has_mpi() { return true; }

}  // namespace colibri
