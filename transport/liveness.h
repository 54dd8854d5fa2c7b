// Who is dead. On one machine a pidfd tells of a process's end at once, whatever killed it; on
// other machines a heartbeat that stays away does.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace colibri {

// One process of the job as the others know it; exchanged at start.
struct PeerIdentity {
  int64_t pid = 0;
  uint64_t host_hash = 0;
};
static_assert(sizeof(PeerIdentity) == 16);

PeerIdentity own_identity();

// Watches the processes of peers on this machine. One thread. Holds a descriptor a peer.
class ProcessWatch {
 public:
  // peers[r] is rank r. A process that has already gone counts as ended. Ranks of other machines
  // are not watched. Fails with kEnvironment where the kernel has no pidfd (before 5.3).
  ProcessWatch(int own_rank, const std::vector<PeerIdentity>& peers);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  bool watches(int rank) const;
  // Ranks whose process has ended since the last call. One system call; never blocks.
  std::vector<int> take_ended();
  // Ends the process of a watched rank, stopped or not; no effect if it has gone. The descriptor
  // names the process, so a reused pid is never hit.
  void kill(int rank);

 private:
  std::vector<int> rank_of_;
  std::vector<pollfd> polls_;  // fd -1: ended
  std::vector<int> already_ended_;
  std::vector<int> fd_of_rank_;
};

// When to send and when to give up, for peers that only messages reach. Pure: the clock is handed
// in. A process that was busy itself for long gives everybody a new period before it complains,
// since their messages lie unread.
class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;
  struct Periods {
    std::chrono::milliseconds send{1000}, overdue{10000};
  };
  Heartbeat(std::vector<int> ranks, Periods periods, Clock::time_point now);

  const std::vector<int>& ranks() const { return ranks_; }
  // True at most once a send period.
  bool take_due(Clock::time_point now);
  void heard(int rank, Clock::time_point now);
  // Ranks not heard of for longer than the overdue period. Call it often.
  std::vector<int> overdue(Clock::time_point now);

 private:
  std::vector<int> ranks_;
  std::vector<Clock::time_point> last_heard_;  // beside ranks_
  Periods periods_;
  Clock::time_point next_send_, last_look_;
};

}  // namespace colibri
