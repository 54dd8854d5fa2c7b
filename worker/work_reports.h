// What a worker tells the coordinator of its work where rows travel between devices and no message
// of its own goes by the host: each announcement that is done, and how far it is within one that
// takes long, so that a wait that ends in vain can name the rank that is behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "transport/control.h"
#include "transport/transport.h"

namespace colibri {

class WorkReports {
 public:
  // All outlive it.
  WorkReports(const Backend& backend, Transport& transport, int coordinator);
  ~WorkReports();
  WorkReports(const WorkReports&) = delete;
  WorkReports& operator=(const WorkReports&) = delete;

  // Under a new epoch: counts from nothing again.
  void begin_epoch();
  // The work of one announcement is about to be enqueued; none is under way.
  void begin();
  // Enqueues: the work is now so far. Can be captured.
  void mark(int layer, WorkStage stage, Stream& stream);
  // Called while the work is waited for. Says how far it is, from time to time; never waits.
  void look();
  // It is done. Waits for the last message's sending.
  void done();

 private:
  using Clock = std::chrono::steady_clock;
  void send(uint64_t mark);

  Backend backend_;
  Transport& transport_;
  int coordinator_;
  uint64_t* word_;  // mapped: the last mark, 0 for none
  std::shared_ptr<std::vector<std::byte>> message_;
  Pending pending_;  // the last one's sending
  bool is_sending_ = false;
  uint64_t num_done_ = 0;
  uint64_t told_ = 0;
  Clock::time_point next_look_;
};

}  // namespace colibri
