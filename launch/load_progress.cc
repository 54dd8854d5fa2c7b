#include "launch/load_progress.h"

#include "base/backoff.h"
#include "base/error.h"
#include "transport/control.h"

namespace colibri {
namespace {

constexpr auto kSendEvery = std::chrono::milliseconds(200);
constexpr int64_t kSendTimeoutMs = 10000;

}  // namespace

struct LoadProgress::Peer {
  int rank = 0;
  bool done = false;
  uint64_t loaded_bytes = 0, total_bytes = 0;
  std::shared_ptr<std::vector<std::byte>> message;
  Pending pending;
};

struct LoadProgress::Sent {
  std::vector<std::byte> message;
  Pending pending;
};

LoadProgress::LoadProgress(RankContext& context, uint64_t total_bytes, int64_t stall_ms)
    : context_(context),
      total_bytes_(total_bytes),
      stall_ms_(stall_ms),
      display_("loading", total_bytes, context.progress) {
  if (context.transport == nullptr || !context.is_root()) return;
  for (int rank = 1; rank < context.size; ++rank) {
    Peer peer;
    peer.rank = rank;
    peer.message = std::make_shared<std::vector<std::byte>>(kMaxControlBytes);
    context.transport->keep(peer.message);  // a worker that stalled may still write into it
    post(peer);
    peers_.push_back(std::move(peer));
  }
}

LoadProgress::~LoadProgress() = default;

void LoadProgress::add(uint64_t bytes) {
  loaded_bytes_ += bytes;
  if (context_.is_root()) {
    poll();
    show();
  } else if (std::chrono::steady_clock::now() - last_sent_ >= kSendEvery) {
    send(false);
  }
}

void LoadProgress::finish() {
  if (!context_.is_root()) {
    send(true);
    std::vector<Pending> all;
    for (const Sent& sent : sent_) all.push_back(sent.pending);
    context_.transport->wait(all, Deadline::after_ms(kSendTimeoutMs), "sending load progress");
    return;
  }
  Backoff backoff(false);
  Deadline stall = Deadline::after_ms(stall_ms_);
  while (std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.done; })) {
    if (poll()) stall = Deadline::after_ms(stall_ms_);
    if (stall.expired()) break;
    show();
    backoff.pause();
  }
  display_.finish();
}

// The last message says that all is read, be it so or not: the error, if any, is agreed on later.
void LoadProgress::send(bool last) {
  last_sent_ = std::chrono::steady_clock::now();
  const LoadProgressBody body{.loaded_bytes = last ? total_bytes_ : loaded_bytes_,
                              .total_bytes = total_bytes_};
  if (!last && body.loaded_bytes >= body.total_bytes) return;
  Sent& sent = sent_.emplace_back();
  sent.message = encode_control(context_.rank, context_.transport->epoch(), body);
  const SendOp send{0, Channel::kControl, sent.message.data(), sent.message.size()};
  sent.pending = context_.transport->post({{&send, 1}, {}}, nullptr);
}

// True if any worker told of progress. A dead peer is done: the next agreement names it.
bool LoadProgress::poll() {
  bool heard = false;
  for (Peer& peer : peers_) {
    if (peer.done) continue;
    try {
      heard = receive(peer) || heard;
    } catch (const Error&) {
      peer.done = true;
    }
  }
  return heard;
}

bool LoadProgress::receive(Peer& peer) {
  Transport& transport = *context_.transport;
  if (!transport.test(peer.pending)) return false;
  const size_t bytes = transport.take_received_bytes(peer.pending).at(0);
  const auto body = parse_control({peer.message->data(), bytes}, peer.rank, transport.epoch())
                        .as<LoadProgressBody>();
  peer.loaded_bytes = body.loaded_bytes;
  peer.total_bytes = body.total_bytes;
  peer.done = body.loaded_bytes >= body.total_bytes;
  if (!peer.done) post(peer);
  return true;
}

void LoadProgress::post(Peer& peer) {
  const RecvOp recv{peer.rank, Channel::kControl, peer.message->data(), peer.message->size()};
  peer.pending = context_.transport->post({{}, {&recv, 1}}, nullptr);
}

void LoadProgress::show() {
  uint64_t loaded = loaded_bytes_, total = total_bytes_;
  for (const Peer& peer : peers_) {
    loaded += peer.loaded_bytes;
    total += peer.total_bytes;
  }
  display_.set(loaded, total);
}

}  // namespace colibri
