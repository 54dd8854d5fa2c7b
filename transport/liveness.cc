#include "transport/liveness.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "transport/rendezvous.h"

namespace colibri {

PeerIdentity own_identity() { return {getpid(), host_hash()}; }

ProcessWatch::ProcessWatch(int own_rank, const std::vector<PeerIdentity>& peers)
    : fd_of_rank_(peers.size(), -1) {
  const uint64_t here = peers.at(static_cast<size_t>(own_rank)).host_hash;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    if (static_cast<int>(rank) == own_rank || peers[rank].host_hash != here) continue;
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, peers[rank].pid, 0));
    if (fd < 0 && errno == ESRCH) {
      already_ended_.push_back(static_cast<int>(rank));
      continue;
    }
    if (fd < 0) {
      fail(ErrorKind::kEnvironment, "cannot watch process ", peers[rank].pid, " of rank ", rank,
           ": ", std::strerror(errno), "; pidfd_open needs Linux 5.3");
    }
    rank_of_.push_back(static_cast<int>(rank));
    polls_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    fd_of_rank_[rank] = fd;
  }
}

ProcessWatch::~ProcessWatch() {
  for (const int fd : fd_of_rank_) {
    if (fd >= 0) close(fd);
  }
}

bool ProcessWatch::watches(int rank) const { return fd_of_rank_[static_cast<size_t>(rank)] >= 0; }

std::vector<int> ProcessWatch::take_ended() {
  std::vector<int> ended;
  ended.swap(already_ended_);
  if (polls_.empty() || ::poll(polls_.data(), polls_.size(), 0) <= 0) return ended;
  for (size_t i = 0; i < polls_.size(); ++i) {
    if (polls_[i].fd < 0 || (polls_[i].revents & (POLLIN | POLLHUP)) == 0) continue;
    polls_[i].fd = -1;
    ended.push_back(rank_of_[i]);
  }
  return ended;
}

void ProcessWatch::kill(int rank) {
  if (!watches(rank)) return;
  // The result does not matter: the only likely failure is that the process has gone.
  syscall(SYS_pidfd_send_signal, fd_of_rank_[static_cast<size_t>(rank)], SIGKILL, nullptr, 0);
}

Heartbeat::Heartbeat(std::vector<int> ranks, Periods periods, Clock::time_point now)
    : ranks_(std::move(ranks)),
      last_heard_(ranks_.size(), now),
      periods_(periods),
      next_send_(now),
      last_look_(now) {}

bool Heartbeat::take_due(Clock::time_point now) {
  if (ranks_.empty() || now < next_send_) return false;
  next_send_ = now + periods_.send;
  return true;
}

void Heartbeat::heard(int rank, Clock::time_point now) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i] == rank) last_heard_[i] = now;
  }
}

std::vector<int> Heartbeat::overdue(Clock::time_point now) {
  const bool was_busy = now - last_look_ > periods_.send;
  last_look_ = now;
  std::vector<int> late;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (was_busy) last_heard_[i] = now;
    if (now - last_heard_[i] > periods_.overdue) late.push_back(ranks_[i]);
  }
  return late;
}

}  // namespace colibri
