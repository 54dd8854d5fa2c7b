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
  std::vector<std::byte> message;
  Pending pending;
};

struct LoadProgress::Sent {
  std::vector<std::byte> message;
  Pending pending;
};

LoadProgress::LoadProgress(RankContext& context, uint64_t total_bytes)
    : context_(context),
      total_bytes_(total_bytes),
      display_("loading", total_bytes, stderr_progress()) {
  if (context.transport == nullptr || !context.is_root()) return;
  for (int rank = 1; rank < context.size; ++rank) {
    Peer peer;
    peer.rank = rank;
    peer.message.resize(kMaxControlBytes);
    const RecvOp recv{rank, Channel::kControl, peer.message.data(), peer.message.size()};
    peer.pending = context.transport->post({{}, {&recv, 1}}, nullptr);
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
  while (std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.done; })) {
    poll();
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

// A dead peer is done: the next agreement names it.
void LoadProgress::poll() {
  for (Peer& peer : peers_) {
    if (peer.done) continue;
    try {
      if (!context_.transport->test(peer.pending)) continue;
      const size_t bytes = context_.transport->take_received_bytes(peer.pending).at(0);
      const auto body =
          parse_control({peer.message.data(), bytes}, peer.rank, context_.transport->epoch())
              .as<LoadProgressBody>();
      peer.loaded_bytes = body.loaded_bytes;
      peer.total_bytes = body.total_bytes;
      peer.done = body.loaded_bytes >= body.total_bytes;
    } catch (const Error&) {
      peer.done = true;
      continue;
    }
    if (peer.done) continue;
    const RecvOp recv{peer.rank, Channel::kControl, peer.message.data(), peer.message.size()};
    peer.pending = context_.transport->post({{}, {&recv, 1}}, nullptr);
  }
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
