// A worker's loop: rows arrive, the shard runs them, results go back to whoever asked, until every
// coordinator has said stop. A worker keeps no state between messages: each row message says all.
// Which experts it holds may change between two of them, and after the loss of a rank it goes on
// under a new epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/trace_log.h"
#include "transport/control.h"
#include "transport/expert_exchange.h"
#include "transport/row_batch.h"
#include "transport/transport.h"
#include "worker/placement_orders.h"
#include "worker/worker_trace.h"

namespace colibri {

struct WorkerOptions {
  std::vector<int> coordinators;     // ranks that may ask
  DType row_dtype = DType::kF32;     // of the rows that arrive
  DType result_dtype = DType::kF32;  // of those that go back: kF32 or kBF16
  int64_t hidden_size = 0;
  int num_layers = 0;
  int64_t max_rows = 0, max_pairs = 0;  // of one message
  bool may_spin = true;                 // ranks do not outnumber cores
  // Obeys orders to hold other experts, of a single coordinator; null: they are refused. Outlives
  // the worker.
  ExpertHolder* holder = nullptr;
  TraceLog* trace = nullptr;  // for traces that a coordinator asks for; may be null
};

struct WorkerTotals {
  uint64_t num_messages = 0, num_rows = 0, num_pairs = 0;
  uint64_t compute_ns = 0;
};

// Bytes of the largest row message.
size_t row_message_capacity(const WorkerOptions& options);
// Bytes of so many results, without a header.
size_t results_bytes(const WorkerOptions& options, int64_t num_pairs);

// A worker's last message to a coordinator, which waits for it. Errors: as Transport::wait.
void send_stats(Transport& transport, int coordinator, const WorkerTotals& totals);

class Worker {
 public:
  // Takes its message buffers once. `transport` and `experts` outlive it.
  Worker(Transport& transport, LocalExperts& experts, const WorkerOptions& options);

  // Serves until every coordinator has stopped; returns the exit code that the last one asked for.
  // Errors: kRankLost when a coordinator dies; kInput when a message is malformed.
  int run(Stream& stream);

 private:
  struct Messages {
    Buffer rows, results, control;
  };
  struct Client {
    int rank = 0;
    bool stopped = false;
    std::shared_ptr<Messages> messages;
    Pending rows_pending, results_pending, control_pending;
    bool is_sending = false;
  };

  std::shared_ptr<Messages> new_messages() const;
  void post_rows(Client& client);
  void post_control(Client& client);
  bool poll(Client& client, Stream& stream);
  void obey(Client& client, const ControlView& command);
  void begin_epoch(Client& client, uint32_t epoch);
  void serve(Client& client, size_t message_bytes, Stream& stream);
  void send_results(Client& client, const RowMessageView& view, uint64_t compute_ns);

  Transport& transport_;
  LocalExperts& experts_;
  WorkerOptions options_;
  std::vector<Client> clients_;
  PlacementOrders orders_;
  std::vector<int32_t> row_numbers_;  // 0, 1, 2, ...
  WorkerTotals totals_;
  WorkerTrace trace_;
  int exit_code_ = 0;
};

}  // namespace colibri
