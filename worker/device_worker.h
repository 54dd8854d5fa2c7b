// A worker's loop where rows travel between devices: counts arrive in host memory, the row message
// goes straight into the device's, the shard runs it there, results go straight back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/graph_cache.h"
#include "base/staging_buffer.h"
#include "kernels/backend.h"
#include "transport/control.h"
#include "transport/device_link.h"
#include "transport/expert_exchange.h"
#include "transport/transport.h"
#include "worker/placement_orders.h"
#include "worker/work_reports.h"
#include "worker/worker.h"

namespace colibri {

// All outlive the worker.
struct DeviceWorkerParts {
  Backend backend;
  DeviceLink* link = nullptr;
  Transport* transport = nullptr;  // for counts and commands
  DeviceExperts* experts = nullptr;
  // Joins a new link after a loss, and returns it; the old one is of no use any more. Empty: the
  // loss of any rank ends the worker.
  std::function<DeviceLink*(std::span<const int> members, const LinkId& id)> join_link = {};
};

class DeviceWorker {
 public:
  // Serves one coordinator, the first of options.coordinators. Takes its buffers once.
  DeviceWorker(const DeviceWorkerParts& parts, const WorkerOptions& options);

  // Serves until the coordinator has stopped; returns the exit code that it asked for. When another
  // rank is lost it waits for what the coordinator says: stop, or go on with those that are left.
  // Errors: kRankLost when the coordinator dies; kInput for counts or a message that do not fit;
  // without join_link those of DeviceLink::wait.
  int run();

 private:
  void post_control();
  // One layer's message and the room for its results.
  struct Work {
    int layer = 0;
    int64_t max_rows = 0, max_pairs = 0, max_results = 0;
  };
  std::optional<int> obey_next();
  void obey(const ControlView& command);
  bool waits_after(const Error& error);
  void begin_epoch(const NewEpochBody& next);
  void look_for_new_epoch();
  void serve(const LayerRowsBody& rows);
  void serve(const FixedStepBody& step);
  void check_work(const Work& work) const;
  void enqueue(const FixedStepBody& step);
  void enqueue(const Work& work);
  void fetch_flags();
  void wait_for(const std::string& what);

  DeviceWorkerParts parts_;
  WorkerOptions options_;
  int coordinator_;
  Buffer rows_, results_, flags_;
  StagingBuffer host_flags_;
  std::shared_ptr<Buffer> control_;
  Pending control_pending_;
  WorkReports reports_;
  PlacementOrders orders_;
  bool is_waiting_ = false;  // for an epoch, after a loss
  WorkerTotals totals_;
  WorkerTrace trace_;
  GraphCache<std::vector<int32_t>> graphs_;  // steps of fixed size, by tokens and capacities
};

}  // namespace colibri
