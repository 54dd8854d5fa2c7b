#include "nccl_bootstrap.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace colibri_sim {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

}  // namespace

PeerRecord own_record(int device) {
  PeerRecord record;
  record.world_rank = wire_is_up() ? wire_rank() : 0;
  record.device = device;
  cudaDeviceProp properties = {};
  cudaGetDeviceProperties(&properties, device);
  std::memcpy(record.uuid, properties.uuid.bytes, sizeof record.uuid);
  return record;
}

Bootstrap::Bootstrap(CommState& state)
    : state_(state),
      root_(state.id.creator),
      own_{state.id.nonce, state.rank, state.num_ranks, own_record(state.device)} {
  if (state.num_ranks == 1) {
    state.peers = {own_.record};
    state.async = ncclSuccess;
    return;
  }
  if (!wire_is_up()) {
    state.fail(ncclSystemError,
               "several ranks want a started MPI whose tags reach 2^31 - 1, and there is none");
    return;
  }
  if (is_root()) {
    hellos_.push_back(own_);
  } else {
    outgoing_.push_back(wire_send(root_, tag_of(state.id, WireKind::kHello), bytes_of(own_)));
  }
}

bool Bootstrap::step() {
  if (state_.async != ncclInProgress) return true;
  if (is_root()) {
    take_hellos();
    if (static_cast<int>(hellos_.size()) == state_.num_ranks) tell_all();
  } else {
    hear_verdict();
  }
  for (auto& message : outgoing_) message->test();
  return state_.async != ncclInProgress;
}

void Bootstrap::take_hellos() {
  while (auto message = wire_take(-1, tag_of(state_.id, WireKind::kHello))) {
    incoming_.push_back(std::move(message));
  }
  for (auto& message : incoming_) {
    if (message == nullptr || message->test() != WireState::kDone) continue;
    Hello hello;
    std::memcpy(&hello, message->bytes().data(), std::min(sizeof hello, message->bytes().size()));
    if (hello.nonce == state_.id.nonce) hellos_.push_back(hello);
    message.reset();
  }
}

Bootstrap::Verdict Bootstrap::judge() const {
  Verdict verdict;
  const auto refuse = [&](ncclResult_t result, const std::string& text) {
    verdict.result = result;
    std::snprintf(verdict.text, sizeof verdict.text, "%s", text.c_str());
    return verdict;
  };
  for (size_t i = 0; i < hellos_.size(); ++i) {
    const Hello& one = hellos_[i];
    if (one.num_ranks != state_.num_ranks || one.rank < 0 || one.rank >= state_.num_ranks) {
      return refuse(ncclInvalidArgument, "rank " + std::to_string(one.rank) + " says there are " +
                                             std::to_string(one.num_ranks) + " ranks, rank " +
                                             std::to_string(state_.rank) + " says " +
                                             std::to_string(state_.num_ranks));
    }
    for (size_t j = 0; j < i; ++j) {
      const std::string both = "rank " + std::to_string(std::min(one.rank, hellos_[j].rank)) +
                               " and rank " + std::to_string(std::max(one.rank, hellos_[j].rank));
      if (one.rank == hellos_[j].rank) {
        return refuse(ncclInvalidArgument, both + " are the same");
      }
      if (std::memcmp(one.record.uuid, hellos_[j].record.uuid, sizeof one.record.uuid) == 0) {
        return refuse(ncclInvalidUsage, "Duplicate GPU detected : " + both +
                                            " both on CUDA device " +
                                            std::to_string(one.record.device));
      }
    }
  }
  return verdict;
}

void Bootstrap::tell_all() {
  const Verdict verdict = judge();
  state_.peers.assign(static_cast<size_t>(state_.num_ranks), {});
  for (const Hello& hello : hellos_) {
    if (hello.rank < 0 || hello.rank >= state_.num_ranks) continue;
    state_.peers[static_cast<size_t>(hello.rank)] = hello.record;
  }
  std::vector<std::byte> bytes = bytes_of(verdict);
  for (const PeerRecord& peer : state_.peers) {
    const auto record = bytes_of(peer);
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  for (const Hello& hello : hellos_) {
    if (hello.record.world_rank == root_) continue;
    outgoing_.push_back(
        wire_send(hello.record.world_rank, tag_of(state_.id, WireKind::kVerdict), bytes));
  }
  settle(verdict);
}

void Bootstrap::hear_verdict() {
  if (incoming_.empty()) {
    auto message = wire_take(root_, tag_of(state_.id, WireKind::kVerdict));
    if (message == nullptr) return;
    incoming_.push_back(std::move(message));
  }
  if (incoming_[0]->test() != WireState::kDone) return;
  const std::vector<std::byte>& bytes = incoming_[0]->bytes();
  Verdict verdict;
  std::memcpy(&verdict, bytes.data(), std::min(sizeof verdict, bytes.size()));
  const auto num_peers = static_cast<size_t>(state_.num_ranks);
  if (bytes.size() == sizeof verdict + num_peers * sizeof(PeerRecord)) {
    state_.peers.resize(num_peers);
    std::memcpy(state_.peers.data(), bytes.data() + sizeof verdict, num_peers * sizeof(PeerRecord));
  }
  settle(verdict);
}

void Bootstrap::settle(const Verdict& verdict) {
  if (verdict.result == ncclSuccess) {
    state_.async = ncclSuccess;
  } else {
    state_.fail(static_cast<ncclResult_t>(verdict.result), verdict.text);
  }
}

}  // namespace colibri_sim
