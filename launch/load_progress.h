// How far all ranks are with reading their weights, shown by rank 0.
//
// Workers send what they have read on the control channel; rank 0 reads those messages between its
// own pieces of work and, in finish(), until every worker is done.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/progress.h"
#include "launch/rank_context.h"

namespace colibri {

class LoadProgress {
 public:
  // This rank will read `total_bytes`. One thread.
  // Rank 0 gives up on workers of which none has told of progress for stall_ms.
  LoadProgress(RankContext& context, uint64_t total_bytes, int64_t stall_ms);
  ~LoadProgress();

  void add(uint64_t bytes);
  // Must be called once on every rank, also after a failure. Rank 0 returns when all have called it
  // or died.
  void finish();

 private:
  struct Peer;  // rank 0's view of a worker
  struct Sent;

  void send(bool last);
  bool poll();
  bool receive(Peer& peer);
  void post(Peer& peer);
  void show();

  RankContext& context_;
  uint64_t loaded_bytes_ = 0, total_bytes_;
  int64_t stall_ms_;
  std::chrono::steady_clock::time_point last_sent_;
  std::vector<Peer> peers_;
  std::deque<Sent> sent_;
  Progress display_;
};

}  // namespace colibri
