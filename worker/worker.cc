#include "worker/worker.h"

#include <chrono>
#include <cstring>
#include <numeric>

#include "base/backoff.h"
#include "base/error.h"

namespace colibri {
namespace {

constexpr int64_t kStatsTimeoutMs = 5000;

}  // namespace

size_t row_message_capacity(const WorkerOptions& options) {
  return row_message_layout(options.max_rows, options.max_pairs,
                            token_row_bytes(options.row_dtype, options.hidden_size))
      .total_bytes;
}

size_t results_bytes(const WorkerOptions& options, int64_t num_pairs) {
  return static_cast<size_t>(num_pairs *
                             token_row_bytes(options.result_dtype, options.hidden_size));
}

void send_stats(Transport& transport, int coordinator, const WorkerTotals& totals) {
  const auto message = std::make_shared<std::vector<std::byte>>(
      encode_control(transport.rank(), transport.epoch(),
                     WorkerStatsBody{.num_messages = totals.num_messages,
                                     .num_rows = totals.num_rows,
                                     .num_pairs = totals.num_pairs,
                                     .compute_ns = totals.compute_ns}));
  transport.keep(message);  // it may still be under way when the wait for it fails
  const SendOp send{coordinator, Channel::kControl, message->data(), message->size()};
  const Pending pending = transport.post({{&send, 1}, {}}, nullptr);
  transport.wait({&pending, 1}, Deadline::after_ms(kStatsTimeoutMs), "sending statistics");
}

Worker::Worker(Transport& transport, LocalExperts& experts, const WorkerOptions& options)
    : transport_(transport),
      experts_(experts),
      options_(options),
      orders_(transport, options.holder, options.coordinators.at(0)),
      trace_(transport, options.trace) {
  check(options.holder == nullptr || options.coordinators.size() == 1,
        "experts that change under several coordinators");
  row_numbers_.resize(static_cast<size_t>(options.max_rows));
  std::iota(row_numbers_.begin(), row_numbers_.end(), 0);
  for (const int rank : options.coordinators) {
    Client client;
    client.rank = rank;
    client.messages = new_messages();
    clients_.push_back(std::move(client));
  }
}

std::shared_ptr<Worker::Messages> Worker::new_messages() const {
  const auto messages = std::make_shared<Messages>();
  messages->rows = Buffer(row_message_capacity(options_));
  messages->results = Buffer(sizeof(RowHeader) + results_bytes(options_, options_.max_pairs));
  messages->control = Buffer(kMaxControlBytes);
  return messages;
}

void Worker::post_rows(Client& client) {
  const RecvOp recv{client.rank, Channel::kRows, client.messages->rows.data(),
                    client.messages->rows.size_bytes()};
  client.rows_pending = transport_.post({{}, {&recv, 1}}, nullptr);
}

void Worker::post_control(Client& client) {
  const RecvOp recv{client.rank, Channel::kControl, client.messages->control.data(),
                    client.messages->control.size_bytes()};
  client.control_pending = transport_.post({{}, {&recv, 1}}, nullptr);
}

int Worker::run(Stream& stream) {
  for (Client& client : clients_) {
    post_rows(client);
    post_control(client);
  }
  size_t num_running = clients_.size();
  Backoff backoff(options_.may_spin);
  while (num_running > 0) {
    bool found = false;
    for (Client& client : clients_) {
      if (client.stopped) continue;
      found = poll(client, stream) || found;
      if (client.stopped) --num_running;
    }
    orders_.look();
    if (found) {
      backoff.reset();
    } else {
      backoff.pause();
    }
  }
  return exit_code_;
}

// Rows first: they are what somebody waits for.
bool Worker::poll(Client& client, Stream& stream) {
  if (transport_.test(client.rows_pending)) {
    serve(client, transport_.take_received_bytes(client.rows_pending).at(0), stream);
    post_rows(client);
    return true;
  }
  if (!transport_.test(client.control_pending)) return false;
  const size_t bytes = transport_.take_received_bytes(client.control_pending).at(0);
  obey(client, parse_control({client.messages->control.as<std::byte>(), bytes}, client.rank,
                             transport_.epoch()));
  return true;
}

void Worker::obey(Client& client, const ControlView& command) {
  if (command.kind() == ControlKind::kNewEpoch) {
    return begin_epoch(client, command.as<NewEpochBody>().epoch);
  }
  if (command.kind() == ControlKind::kTrace) {
    trace_.obey(command, client.rank);
    return post_control(client);
  }
  if (orders_.obey(command)) return post_control(client);
  if (command.kind() != ControlKind::kStop) {
    fail(ErrorKind::kInput, "rank ", client.rank, " sent a control message of kind ",
         static_cast<int>(command.kind()),
         " to a worker, want stop, an epoch, a placement or a trace");
  }
  exit_code_ = command.as<StopBody>().exit_code;
  client.stopped = true;
  send_stats(transport_, client.rank, totals_);
}

// What was under way is void, and may still write to where it was posted: that memory is left.
void Worker::begin_epoch(Client& client, uint32_t epoch) {
  check(clients_.size() == 1, "a new epoch under several coordinators");
  transport_.keep(client.messages);
  client.messages = new_messages();
  client.is_sending = false;
  transport_.set_epoch(epoch);
  orders_.begin_epoch();
  post_rows(client);
  post_control(client);
}

void Worker::serve(Client& client, size_t message_bytes, Stream& stream) {
  const RowExpectation want{.kind = RowKind::kRows,
                            .epoch = transport_.epoch(),
                            .row_dtype = options_.row_dtype,
                            .hidden_size = static_cast<int32_t>(options_.hidden_size),
                            .num_layers = options_.num_layers,
                            .max_rows = options_.max_rows,
                            .max_pairs = options_.max_pairs};
  const RowMessageView view =
      parse_row_message({client.messages->rows.as<std::byte>(), message_bytes}, client.rank, want);
  if (client.is_sending) {  // the last results may still be under way out of this buffer
    transport_.wait({&client.results_pending, 1}, Deadline::never(), "sending results");
    client.is_sending = false;
  }
  const auto start = std::chrono::steady_clock::now();
  experts_.run({.layer = view.header->layer,
                .tokens = {view.payload, options_.row_dtype, options_.hidden_size},
                .row_token = {row_numbers_.data(), static_cast<size_t>(view.header->num_rows)},
                .pair_begin = view.pair_begin,
                .slot = view.slots,
                .out = {client.messages->results.as<std::byte>() + sizeof(RowHeader),
                        options_.result_dtype}},
               stream);
  const auto end = std::chrono::steady_clock::now();
  if (trace_.log() != nullptr) {
    trace_.log()->add({.name = "experts",
                       .start = start,
                       .end = end,
                       .layer = view.header->layer,
                       .rows = view.header->num_rows});
  }
  const auto took = end - start;
  send_results(client, view, static_cast<uint64_t>(std::chrono::nanoseconds(took).count()));
}

void Worker::send_results(Client& client, const RowMessageView& view, uint64_t compute_ns) {
  const TraceSpan span(trace_.log(), "send results");
  const size_t bytes = results_bytes(options_, view.header->num_pairs);
  RowHeader header = results_header(*view.header, options_.result_dtype, bytes);
  header.compute_ns = compute_ns;
  totals_.num_rows += static_cast<uint64_t>(view.header->num_rows);
  totals_.num_pairs += static_cast<uint64_t>(view.header->num_pairs);
  totals_.compute_ns += compute_ns;
  ++totals_.num_messages;
  std::memcpy(client.messages->results.data(), &header, sizeof header);
  const SendOp send{client.rank, Channel::kResults, client.messages->results.data(),
                    sizeof header + bytes};
  client.results_pending = transport_.post({{&send, 1}, {}}, nullptr);
  client.is_sending = true;
}

}  // namespace colibri
