#include "transport/collectives.h"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int kRoot = 0;

using Bytes = std::vector<std::byte>;

// Posts and waits. `memory` owns every buffer of the group: after a failure the carrier may still
// use it, so the transport keeps it.
std::vector<size_t> run(Transport& transport, const Group& group,
                        const std::shared_ptr<void>& memory, const Deadline& deadline,
                        const std::string& what) {
  if (group.sends.empty() && group.recvs.empty()) return {};
  try {
    const Pending pending = transport.post(group, nullptr);
    transport.wait({&pending, 1}, deadline, what);
    if (group.recvs.empty()) return {};
    return transport.take_received_bytes(pending);
  } catch (...) {
    transport.keep(memory);
    throw;
  }
}

SendOp send_to(int peer, const void* data, size_t bytes) {
  return {peer, Channel::kStartup, data, bytes};
}

RecvOp receive_from(int peer, void* data, size_t capacity_bytes) {
  return {peer, Channel::kStartup, data, capacity_bytes};
}

std::vector<SendOp> send_to_workers(const Transport& transport, const void* data, size_t bytes) {
  std::vector<SendOp> sends;
  for (int peer = 1; peer < transport.size(); ++peer) sends.push_back(send_to(peer, data, bytes));
  return sends;
}

void check_length(int from, uint64_t bytes, const std::string& what) {
  if (bytes > kMaxCollectiveBytes) {
    fail(ErrorKind::kInput, what, ": rank ", from, " announces ", bytes, " bytes, want at most ",
         kMaxCollectiveBytes);
  }
}

// What rank 0 knows after asking everybody.
struct Answers {
  std::optional<ErrorInfo> reported;  // of the lowest rank that reported one
  std::optional<ErrorInfo> missing;   // of the lowest rank that did not answer
};

void take_answer(std::span<const std::byte> message, int from, uint32_t epoch, Answers& answers) {
  const ControlView view = parse_control(message, from, epoch);
  if (view.as<StatusBody>().is_error == 1 && !answers.reported) answers.reported = error_of(view);
}

// One wait a rank, so that the loss of one does not hide what the others say.
Answers ask_everybody(Transport& transport, const std::optional<ErrorInfo>& mine,
                      const Deadline& deadline, const std::string& what) {
  Answers answers{mine, std::nullopt};
  const auto num_ranks = static_cast<size_t>(transport.size());
  const auto buffers = std::make_shared<std::vector<Bytes>>(num_ranks);
  std::vector<Pending> pending(num_ranks);
  for (size_t peer = 1; peer < num_ranks; ++peer) {
    Bytes& buffer = (*buffers)[peer];
    buffer.resize(kMaxControlBytes);
    const RecvOp recv{static_cast<int>(peer), Channel::kStartup, buffer.data(), buffer.size()};
    pending[peer] = transport.post({{}, {&recv, 1}}, nullptr);
  }
  for (size_t peer = 1; peer < num_ranks; ++peer) {
    try {
      transport.wait({&pending[peer], 1}, deadline, what);
      const size_t bytes = transport.take_received_bytes(pending[peer]).at(0);
      take_answer({(*buffers)[peer].data(), bytes}, static_cast<int>(peer), transport.epoch(),
                  answers);
    } catch (const Error& error) {
      if (!answers.missing) answers.missing = ErrorInfo{error.kind(), error.what()};
    }
  }
  if (answers.missing) transport.keep(buffers);
  return answers;
}

// Tells each rank by itself: one that is gone must not keep the others from hearing it.
void announce(Transport& transport, const std::shared_ptr<Bytes>& verdict,
              const std::string& what) {
  const Deadline deadline = Deadline::after_ms(1000);
  for (int peer = 1; peer < transport.size(); ++peer) {
    try {
      const SendOp send = send_to(peer, verdict->data(), verdict->size());
      run(transport, {{&send, 1}, {}}, verdict, deadline, what);
    } catch (const Error&) {
      continue;  // it is lost, and the verdict says so
    }
  }
}

std::vector<std::byte> encode_answer(const Transport& transport,
                                     const std::optional<ErrorInfo>& error) {
  if (error) return encode_error(transport.rank(), transport.epoch(), *error);
  return encode_control(transport.rank(), transport.epoch(), StatusBody{});
}

std::optional<ErrorInfo> hear_verdict(Transport& transport, const std::optional<ErrorInfo>& mine,
                                      const Deadline& deadline, const std::string& what) {
  struct Memory {
    Bytes answer, verdict = Bytes(kMaxControlBytes);
  };
  const auto memory = std::make_shared<Memory>();
  memory->answer = encode_answer(transport, mine);
  const SendOp send = send_to(kRoot, memory->answer.data(), memory->answer.size());
  const RecvOp recv = receive_from(kRoot, memory->verdict.data(), memory->verdict.size());
  const Deadline longer =
      deadline.is_never() ? deadline : Deadline::after_ms(deadline.remaining_ms() + kAgreeGraceMs);
  const size_t bytes = run(transport, {{&send, 1}, {&recv, 1}}, memory, longer, what).at(0);
  const ControlView view = parse_control({memory->verdict.data(), bytes}, kRoot, transport.epoch());
  if (view.as<StatusBody>().is_error == 0) return std::nullopt;
  return error_of(view);
}

}  // namespace

void barrier(Transport& transport, const Deadline& deadline, const std::string& what) {
  if (transport.rank() == kRoot) {
    std::vector<RecvOp> recvs;
    for (int peer = 1; peer < transport.size(); ++peer) {
      recvs.push_back(receive_from(peer, nullptr, 0));
    }
    run(transport, {{}, recvs}, nullptr, deadline, what);
    run(transport, {send_to_workers(transport, nullptr, 0), {}}, nullptr, deadline, what);
    return;
  }
  const SendOp send = send_to(kRoot, nullptr, 0);
  const RecvOp recv = receive_from(kRoot, nullptr, 0);
  run(transport, {{&send, 1}, {&recv, 1}}, nullptr, deadline, what);
}

std::vector<std::byte> broadcast(Transport& transport, std::span<const std::byte> bytes,
                                 const Deadline& deadline, const std::string& what) {
  struct Memory {
    uint64_t length = 0;
    Bytes bytes;
  };
  const auto memory = std::make_shared<Memory>();
  if (transport.rank() == kRoot) {
    memory->length = bytes.size();
    memory->bytes.assign(bytes.begin(), bytes.end());
    check_length(kRoot, memory->length, what);
    std::vector<SendOp> sends = send_to_workers(transport, &memory->length, sizeof(uint64_t));
    run(transport, {sends, {}}, memory, deadline, what);
    sends = send_to_workers(transport, memory->bytes.data(), memory->bytes.size());
    run(transport, {sends, {}}, memory, deadline, what);
    return std::move(memory->bytes);
  }
  RecvOp recv = receive_from(kRoot, &memory->length, sizeof(uint64_t));
  run(transport, {{}, {&recv, 1}}, memory, deadline, what);
  check_length(kRoot, memory->length, what);
  memory->bytes.resize(memory->length);
  recv = receive_from(kRoot, memory->bytes.data(), memory->bytes.size());
  run(transport, {{}, {&recv, 1}}, memory, deadline, what);
  return std::move(memory->bytes);
}

std::vector<std::vector<std::byte>> gather(Transport& transport, std::span<const std::byte> bytes,
                                           const Deadline& deadline, const std::string& what) {
  struct Memory {
    std::vector<uint64_t> lengths;  // [R]
    std::vector<Bytes> blocks;      // [R]
  };
  const auto num_ranks = static_cast<size_t>(transport.size());
  const auto own = static_cast<size_t>(transport.rank());
  const auto memory = std::make_shared<Memory>();
  memory->lengths.resize(num_ranks);
  memory->blocks.resize(num_ranks);
  memory->blocks[own].assign(bytes.begin(), bytes.end());
  memory->lengths[own] = bytes.size();
  check_length(transport.rank(), bytes.size(), what);
  if (transport.rank() != kRoot) {
    const std::array<SendOp, 2> sends = {send_to(kRoot, &memory->lengths[own], sizeof(uint64_t)),
                                         send_to(kRoot, memory->blocks[own].data(), bytes.size())};
    run(transport, {sends, {}}, memory, deadline, what);
    return {};
  }
  std::vector<RecvOp> recvs;
  for (size_t peer = 1; peer < num_ranks; ++peer) {
    recvs.push_back(receive_from(static_cast<int>(peer), &memory->lengths[peer], sizeof(uint64_t)));
  }
  run(transport, {{}, recvs}, memory, deadline, what);
  recvs.clear();
  for (size_t peer = 1; peer < num_ranks; ++peer) {
    Bytes& block = memory->blocks[peer];
    check_length(static_cast<int>(peer), memory->lengths[peer], what);
    block.resize(memory->lengths[peer]);
    recvs.push_back(receive_from(static_cast<int>(peer), block.data(), block.size()));
  }
  run(transport, {{}, recvs}, memory, deadline, what);
  return std::move(memory->blocks);
}

void agree(Transport& transport, const std::optional<ErrorInfo>& mine, const Deadline& deadline,
           const std::string& what) {
  std::optional<ErrorInfo> verdict;
  if (transport.rank() == kRoot) {
    const Answers answers = ask_everybody(transport, mine, deadline, what);
    verdict = answers.reported ? answers.reported : answers.missing;
    announce(transport, std::make_shared<Bytes>(encode_answer(transport, verdict)), what);
  } else {
    verdict = hear_verdict(transport, mine, deadline, what);
  }
  if (verdict) throw Error(verdict->kind, verdict->message);
}

void agree_same(Transport& transport, const std::string& name, const std::string& value,
                const Deadline& deadline) {
  const std::string what = "agreement on the " + name;
  const auto values = gather(transport, std::as_bytes(std::span(value)), deadline, what);
  std::optional<ErrorInfo> mine;
  for (size_t peer = 1; peer < values.size() && !mine; ++peer) {
    const std::string other(reinterpret_cast<const char*>(values[peer].data()),
                            values[peer].size());
    if (other == value) continue;
    mine = ErrorInfo{ErrorKind::kInput, "rank " + std::to_string(peer) + " has " + name + " '" +
                                            other + "', rank 0 has '" + value +
                                            "'; start the same on every rank"};
  }
  agree(transport, mine, deadline, what);
}

}  // namespace colibri
