#include "worker/device_worker.h"

#include <algorithm>
#include <cstring>

#include "base/backoff.h"
#include "base/error.h"
#include "kernels/exchange_ops.h"
#include "transport/row_batch.h"

namespace colibri {
DeviceWorker::DeviceWorker(const DeviceWorkerParts& parts, const WorkerOptions& options)
    : parts_(parts),
      options_(options),
      coordinator_(options.coordinators.at(0)),
      rows_(*parts.backend.device, row_message_capacity(options)),
      results_(*parts.backend.device, results_bytes(options, options.max_pairs)),
      flags_(*parts.backend.device, sizeof(uint32_t)),
      host_flags_(*parts.backend.device, sizeof(uint32_t)),
      control_(std::make_shared<Buffer>(kMaxControlBytes)),
      reports_(parts.backend, *parts.transport, coordinator_),
      orders_(*parts.transport, options.holder, coordinator_),
      trace_(*parts.transport, options.trace),
      graphs_(*parts.backend.device) {}

void DeviceWorker::post_control() {
  const RecvOp recv{coordinator_, Channel::kControl, control_->data(), control_->size_bytes()};
  control_pending_ = parts_.transport->post({{}, {&recv, 1}}, nullptr);
}

int DeviceWorker::run() {
  Backoff backoff(options_.may_spin);
  post_control();
  for (;;) {
    try {
      if (!parts_.transport->test(control_pending_)) {
        orders_.look();
        backoff.pause();
        continue;
      }
      backoff.reset();
      if (const auto code = obey_next()) return *code;
    } catch (const Error& error) {
      if (!waits_after(error)) throw;
    }
  }
}

// Another rank's death is the coordinator's business, which goes on without it or ends the run.
bool DeviceWorker::waits_after(const Error& error) {
  const bool is_loss = error.kind() == ErrorKind::kRankLost || error.kind() == ErrorKind::kTimeout;
  if (!is_loss || !parts_.join_link) return false;
  const std::vector<int> dead = parts_.transport->dead_ranks();
  if (std::find(dead.begin(), dead.end(), coordinator_) != dead.end()) return false;
  is_waiting_ = true;
  return true;
}

std::optional<int> DeviceWorker::obey_next() {
  Transport& transport = *parts_.transport;
  const size_t bytes = transport.take_received_bytes(control_pending_).at(0);
  const ControlView command =
      parse_control({control_->as<std::byte>(), bytes}, coordinator_, transport.epoch());
  if (command.kind() == ControlKind::kStop) {
    const auto stop = command.as<StopBody>();
    send_stats(transport, coordinator_, totals_);
    return stop.exit_code;
  }
  obey(command);
  return std::nullopt;
}

// The next command may come while this one's work goes on, so its receive is posted first.
void DeviceWorker::obey(const ControlView& command) {
  if (command.kind() == ControlKind::kNewEpoch) return begin_epoch(command.as<NewEpochBody>());
  if (command.kind() == ControlKind::kTrace) {
    trace_.obey(command, coordinator_);
    return post_control();
  }
  if (command.kind() == ControlKind::kLayerRows) {
    const auto rows = command.as<LayerRowsBody>();
    post_control();
    return is_waiting_ ? void() : serve(rows);
  }
  if (command.kind() == ControlKind::kFixedStep) {
    const auto step = command.as<FixedStepBody>();
    post_control();
    return is_waiting_ ? void() : serve(step);
  }
  if (orders_.obey(command)) {
    graphs_.clear();  // they hold the addresses of slots
    return post_control();
  }
  fail(ErrorKind::kInput, "rank ", coordinator_, " sent a control message of kind ",
       static_cast<int>(command.kind()),
       " to a worker, want rows, a step, an epoch, a placement, a trace or stop");
}

void DeviceWorker::begin_epoch(const NewEpochBody& next) {
  Transport& transport = *parts_.transport;
  if (next.num_members == 0 || !parts_.join_link) {
    fail(ErrorKind::kInput, "rank ", coordinator_, " begins epoch ", next.epoch,
         " without a link that this worker can join");
  }
  parts_.link->abandon();
  parts_.backend.stream->synchronize();
  parts_.backend.device->zero(flags_.data(), sizeof(uint32_t), *parts_.backend.stream);
  graphs_.clear();
  transport.keep(control_);
  control_ = std::make_shared<Buffer>(kMaxControlBytes);
  transport.set_epoch(next.epoch);
  reports_.begin_epoch();
  orders_.begin_epoch();  // says that this rank is there, before anyone waits for it
  post_control();
  LinkId id;
  std::memcpy(id.data(), next.link_id, id.size());
  parts_.link = parts_.join_link({next.members, next.num_members}, id);
  is_waiting_ = false;
}

// A rank that is stuck far away ends no wait here by its death.
void DeviceWorker::look_for_new_epoch() {
  if (!parts_.join_link || !parts_.transport->test(control_pending_)) return;
  ControlHeader header;
  std::memcpy(&header, control_->data(), sizeof header);
  if (header.kind == ControlKind::kNewEpoch) {
    fail(ErrorKind::kRankLost, "rank ", coordinator_, " goes on without some rank");
  }
}

void DeviceWorker::check_work(const Work& work) const {
  if (work.max_rows <= options_.max_rows && work.max_pairs <= options_.max_pairs &&
      work.layer < options_.num_layers) {
    return;
  }
  fail(ErrorKind::kInput, "rank ", coordinator_, " announced ", work.max_rows, " rows and ",
       work.max_pairs, " pairs of layer ", work.layer, ", want at most ", options_.max_rows,
       " and ", options_.max_pairs, " of ", options_.num_layers, " layers");
}

void DeviceWorker::serve(const LayerRowsBody& rows) {
  const TraceSpan span(trace_.log(), "experts");
  const Work work{rows.layer, rows.num_rows, rows.num_pairs, rows.num_pairs};
  check_work(work);
  reports_.begin();
  enqueue(work);
  fetch_flags();
  wait_for("layer " + std::to_string(rows.layer) + ", step " + std::to_string(rows.step));
  totals_.num_rows += static_cast<uint64_t>(rows.num_rows);
  totals_.num_pairs += static_cast<uint64_t>(rows.num_pairs);
  ++totals_.num_messages;
}

void DeviceWorker::serve(const FixedStepBody& step) {
  const TraceSpan span(trace_.log(), "experts of all layers");
  reports_.begin();
  if (parts_.link->can_be_captured()) {
    std::vector<int32_t> key(step.capacity, step.capacity + options_.num_layers);
    key.push_back(step.num_tokens);
    graphs_.run(key, *parts_.backend.stream, [&] { enqueue(step); });
  } else {
    enqueue(step);
  }
  wait_for("step " + std::to_string(step.step));
  totals_.num_messages += static_cast<uint64_t>(options_.num_layers);
}

void DeviceWorker::enqueue(const FixedStepBody& step) {
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    if (step.capacity[layer] == 0) continue;
    const Work work{layer, step.num_tokens, int64_t{step.num_tokens} * step.top_k,
                    step.capacity[layer]};
    check_work(work);
    enqueue(work);
  }
  fetch_flags();
}

void DeviceWorker::enqueue(const Work& work) {
  const int64_t row_bytes = token_row_bytes(options_.row_dtype, options_.hidden_size);
  const RowMessageLayout layout = row_message_layout(work.max_rows, work.max_pairs, row_bytes);
  Stream& stream = *parts_.backend.stream;
  const DeviceRecv recv{coordinator_, rows_.data(), work.max_rows == 0 ? 0 : layout.total_bytes};
  {
    const NamedRange range(*parts_.backend.device, "worker: receive rows");
    parts_.link->post({}, {&recv, 1}, stream);
  }
  if (work.max_rows > 0) {
    const NamedRange range(*parts_.backend.device, "worker: experts");
    DeviceRows rows = rows_of({.data = rows_.data(),
                               .max_rows = work.max_rows,
                               .max_pairs = work.max_pairs,
                               .row_dtype = options_.row_dtype,
                               .hidden_size = options_.hidden_size});
    rows.layer = work.layer;
    rows.max_results = work.max_results;
    rows.out = {results_.data(), options_.result_dtype};
    rows.flags = flags_.as<uint32_t>();
    parts_.experts->run(rows, stream);
  }
  reports_.mark(work.layer, WorkStage::kMade, stream);
  {
    const NamedRange range(*parts_.backend.device, "worker: send results");
    const DeviceSend send{coordinator_, results_.data(), results_bytes(options_, work.max_results)};
    parts_.link->post({&send, 1}, {}, stream);
  }
  reports_.mark(work.layer, WorkStage::kSent, stream);
}

void DeviceWorker::fetch_flags() {
  Stream& stream = *parts_.backend.stream;
  Device& device = *parts_.backend.device;
  device.copy(host_flags_.as<char>(), flags_.data(), sizeof(uint32_t), stream);
  device.zero(flags_.data(), sizeof(uint32_t), stream);
}

// More pairs than results fit is the coordinator's business: it sees the same and asks again.
void DeviceWorker::wait_for(const std::string& what) {
  Stream& stream = *parts_.backend.stream;
  {
    const NamedRange range(*parts_.backend.device, "worker: wait");
    parts_.link->wait(stream, Deadline::never(), what, [this] {
      reports_.look();
      look_for_new_epoch();
    });
  }
  const uint32_t flags = *host_flags_.as<uint32_t>() & ~kFlagOverflow;
  if (flags == 0) return reports_.done();
  fail(ErrorKind::kInput, "rank ", coordinator_, ", ", what,
       (flags & kFlagBadSlot) != 0 ? ": a row asks for a slot that this rank does not have"
                                   : ": a row message's counts are not those announced",
       "; do all ranks use the same placement?");
}

}  // namespace colibri
