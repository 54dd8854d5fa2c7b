// How far each worker is with what it was told to do, where rows travel between devices and no
// message of theirs comes by: so that a wait that ends in vain can say for whom.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/control.h"
#include "transport/transport.h"

namespace colibri {

class WorkerProgress {
 public:
  // The transport outlives it, and hears of nothing until the first announcement.
  WorkerProgress(Transport& transport, const std::vector<int>& workers);
  // Messages may be under way into its buffers: the transport keeps them.
  ~WorkerProgress();
  WorkerProgress(const WorkerProgress&) = delete;
  WorkerProgress& operator=(const WorkerProgress&) = delete;

  // One more announcement went to every worker.
  void announced();
  // "rank 2 (no results yet)", "ranks 1 and 3 (made the results of layer 4)": who is
  // furthest behind, as far as is known; "" when all have done everything.
  std::string late_text();
  // Those ranks. After a time-out, when late_text() was asked.
  const std::vector<int>& late_ranks() const { return late_; }

 private:
  struct Worker {
    int rank = 0;
    Pending pending;
    uint64_t num_done = 0;  // announcements
    int32_t layer = 0;      // of the next one
    WorkStage stage = WorkStage::kNone;
  };
  using Buffers = std::vector<std::vector<std::byte>>;

  void post(size_t worker_idx);
  void take_messages();

  Transport& transport_;
  uint64_t num_announced_ = 0;
  std::vector<Worker> workers_;
  std::shared_ptr<Buffers> buffers_;  // of each worker
  std::vector<int> late_;
};

}  // namespace colibri
