#include "coordinator/exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "base/backoff.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/uploaded_array.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

class Exchange : public ExpertExchange {
 public:
  explicit Exchange(const ExchangeOptions& options);
  void begin(const RowBatch& batch, Stream& stream) override;
  void run_local(Stream& stream) override;
  ExpertResults finish(const Deadline& deadline, Stream& stream) override;
  const ExchangeTotals& totals() const override { return totals_; }
  std::vector<int> late_ranks() const override { return late_; }
  void restart() override;

 private:
  struct Remote {
    int rank = 0;
    Pending pending;
    size_t result_bytes = 0;
  };

  size_t rows_of(size_t rank) const;
  size_t pairs_before(size_t row) const { return static_cast<size_t>(batch_.pair_begin[row]); }
  bool is_local(size_t rank) const;
  size_t results_bytes(size_t num_pairs) const {
    return sizeof(RowHeader) + num_pairs * result_row_bytes();
  }
  size_t result_row_bytes() const {
    return static_cast<size_t>(token_row_bytes(options_.result_dtype, options_.hidden_size));
  }
  // Where messages are written and read: on the host the exchange's own arrays.
  bool is_on_host() const { return options_.device->place() == Place::kHost; }
  std::byte* message_results() {
    return is_on_host() ? results_.as<std::byte>() : host_results_.as<std::byte>();
  }
  RowMessageLayout layout_of(size_t rank) const;
  size_t pairs_of(size_t rank) const;
  void take_memory();
  void lay_out_results();
  void fill_message(size_t rank, Stream& stream);
  void gather_payload(size_t rank, std::byte* to, Stream& stream);
  void post_rows(size_t rank, Stream& stream);
  bool has_remote_rows() const;
  void post_remote_rows(Stream& stream);
  void upload_results(const Remote& remote, Stream& stream);
  void serve_own_message(Stream& stream);
  void answer(const RowMessageView& view, Stream& stream);
  RowHeader check_results(const Remote& remote) const;
  void wait_for(size_t i, const Deadline& deadline);
  std::string what() const;

  ExchangeOptions options_;
  size_t num_ranks_ = 1, own_rank_ = 0;
  RowBatch batch_;
  uint64_t step_ = 0;
  std::vector<Buffer> send_;  // [R] one row message each
  UploadedArray<int32_t> row_token_;
  const int32_t* device_row_token_ = nullptr;
  Buffer gathered_;      // rows of one batch on their way into messages; not on the host
  Buffer results_;       // a block a rank: header, then its pairs' rows
  Buffer host_results_;  // the same blocks as they arrive; not on the host
  std::vector<size_t> block_begin_;  // [R] bytes
  std::vector<int64_t> offset_;      // [P] elements
  std::vector<Remote> remotes_;
  std::vector<int> late_;
  Buffer own_request_, own_answer_;  // --self-exchange only
  std::vector<int32_t> own_rows_;
  ExchangeTotals totals_;
};

Exchange::Exchange(const ExchangeOptions& options)
    : options_(options), row_token_(*options.device), gathered_(*options.device, 0) {
  if (options_.transport != nullptr) {
    num_ranks_ = static_cast<size_t>(options_.transport->size());
    own_rank_ = static_cast<size_t>(options_.transport->rank());
  }
  check(!options_.self_exchange || options_.transport != nullptr,
        "self-exchange needs a transport");
  take_memory();
  if (!is_on_host()) {
    const auto most_rows = static_cast<size_t>(options_.max_tokens) *
                           std::min(static_cast<size_t>(options_.top_k), num_ranks_);
    row_token_.reserve(most_rows);
    const TokenRows form{nullptr, options_.row_dtype, options_.hidden_size};
    gathered_.reserve_discarding(most_rows * static_cast<size_t>(form.row_bytes()));
  }
  block_begin_.resize(num_ranks_);
  offset_.reserve(static_cast<size_t>(options_.max_tokens * options_.top_k));
  totals_.wait_us.resize(num_ranks_);
  totals_.compute_us.resize(num_ranks_);
  totals_.layer_pairs.resize(static_cast<size_t>(options_.num_layers) * num_ranks_);
}

// Where messages are written, read and sent from.
void Exchange::take_memory() {
  const auto pairs = static_cast<size_t>(options_.max_tokens * options_.top_k);
  const size_t bytes = num_ranks_ * sizeof(RowHeader) + pairs * result_row_bytes();
  results_ = Buffer(*options_.device, bytes);
  if (!is_on_host()) host_results_ = Buffer(bytes);
  send_ = std::vector<Buffer>(num_ranks_);
}

void Exchange::restart() {
  remotes_.clear();
  late_.clear();
  if (options_.transport == nullptr) return;
  struct Left {
    Buffer results;
    std::vector<Buffer> send;
  };
  const auto left = std::make_shared<Left>();
  // Host memory alone: messages reach no other, and the transport outlives the device.
  left->results = std::move(is_on_host() ? results_ : host_results_);
  left->send = std::move(send_);
  options_.transport->keep(left);
  take_memory();
}

size_t Exchange::rows_of(size_t rank) const {
  return static_cast<size_t>(batch_.row_begin[rank + 1] - batch_.row_begin[rank]);
}

bool Exchange::is_local(size_t rank) const { return rank == own_rank_ && !options_.self_exchange; }

void Exchange::lay_out_results() {
  offset_.resize(batch_.slot.size());
  size_t at = 0;
  for (size_t rank = 0; rank < num_ranks_; ++rank) {
    block_begin_[rank] = at;
    at += sizeof(RowHeader);
    const size_t end = pairs_before(static_cast<size_t>(batch_.row_begin[rank + 1]));
    for (size_t p = pairs_before(static_cast<size_t>(batch_.row_begin[rank])); p < end; ++p) {
      offset_[p] = static_cast<int64_t>(at / size_of(options_.result_dtype));
      at += result_row_bytes();
    }
  }
}

size_t Exchange::pairs_of(size_t rank) const {
  return pairs_before(static_cast<size_t>(batch_.row_begin[rank + 1])) -
         pairs_before(static_cast<size_t>(batch_.row_begin[rank]));
}

RowMessageLayout Exchange::layout_of(size_t rank) const {
  return row_message_layout(static_cast<int64_t>(rows_of(rank)),
                            static_cast<int64_t>(pairs_of(rank)), batch_.tokens.row_bytes());
}

void Exchange::fill_message(size_t rank, Stream& stream) {
  const RowMessageLayout layout = layout_of(rank);
  send_[rank].reserve_discarding(layout.total_bytes);
  auto* message = send_[rank].as<std::byte>();
  const auto first_row = static_cast<size_t>(batch_.row_begin[rank]);
  const size_t num_rows = rows_of(rank), num_pairs = pairs_of(rank);
  const size_t first_pair = pairs_before(first_row);
  RowHeader header;
  header.payload_dtype = static_cast<uint8_t>(batch_.tokens.dtype);
  header.epoch = options_.transport->epoch();
  header.source_rank = static_cast<int32_t>(own_rank_);
  header.step = step_;
  header.layer = batch_.layer;
  header.num_rows = static_cast<int32_t>(num_rows);
  header.num_pairs = static_cast<int32_t>(num_pairs);
  header.hidden_size = static_cast<int32_t>(options_.hidden_size);
  header.payload_bytes = layout.total_bytes - layout.payload;
  std::memcpy(message, &header, sizeof header);
  auto* begins = reinterpret_cast<int32_t*>(message + layout.pair_begin);
  for (size_t i = 0; i <= num_rows; ++i) {
    begins[i] = batch_.pair_begin[first_row + i] - static_cast<int32_t>(first_pair);
  }
  std::memcpy(message + layout.slots, batch_.slot.data() + first_pair, num_pairs * sizeof(int32_t));
  gather_payload(rank, message + layout.payload, stream);
}

void Exchange::gather_payload(size_t rank, std::byte* to, Stream& stream) {
  const auto first_row = static_cast<size_t>(batch_.row_begin[rank]);
  const auto row_bytes = static_cast<size_t>(batch_.tokens.row_bytes());
  void* out = is_on_host() ? to : gathered_.as<std::byte>() + first_row * row_bytes;
  options_.ops->gather_rows({.x = static_cast<const float*>(batch_.tokens.data),
                             .row = device_row_token_ + first_row,
                             .out = static_cast<float*>(out),
                             .num_rows = static_cast<int64_t>(rows_of(rank)),
                             .width = batch_.tokens.row_bytes() / int64_t{sizeof(float)}},
                            stream);
  if (!is_on_host()) options_.device->copy(to, out, rows_of(rank) * row_bytes, stream);
}

void Exchange::post_rows(size_t rank, Stream& stream) {
  const size_t message_bytes = layout_of(rank).total_bytes;
  const size_t result_bytes = results_bytes(pairs_of(rank));
  const SendOp send{static_cast<int>(rank), Channel::kRows, send_[rank].data(), message_bytes};
  const RecvOp recv{static_cast<int>(rank), Channel::kResults,
                    message_results() + block_begin_[rank], result_bytes};
  remotes_.push_back({static_cast<int>(rank),
                      options_.transport->post({{&send, 1}, {&recv, 1}}, &stream), result_bytes});
  totals_.dispatch_bytes += message_bytes;
  totals_.combine_bytes += result_bytes;
  totals_.num_rows += rows_of(rank);
  ++totals_.num_messages;
}

void Exchange::begin(const RowBatch& batch, Stream& stream) {
  const auto start = Clock::now();
  check(batch.num_tokens <= options_.max_tokens && batch.tokens.width == options_.hidden_size &&
            batch.tokens.dtype == options_.row_dtype,
        "exchange for T <= ", options_.max_tokens, ", H ", options_.hidden_size, ", ",
        to_string(options_.row_dtype), " rows, got T ", batch.num_tokens, ", H ",
        batch.tokens.width, ", ", to_string(batch.tokens.dtype));
  batch_ = batch;
  ++step_;
  for (size_t rank = 0; rank < num_ranks_; ++rank) {
    totals_.layer_pairs[static_cast<size_t>(batch.layer) * num_ranks_ + rank] += pairs_of(rank);
  }
  lay_out_results();
  remotes_.clear();
  if (has_remote_rows()) post_remote_rows(stream);
  totals_.begin_us += us_since(start);
}

bool Exchange::has_remote_rows() const {
  return batch_.row_token.size() > (is_local(own_rank_) ? rows_of(own_rank_) : 0);
}

void Exchange::post_remote_rows(Stream& stream) {
  device_row_token_ = row_token_.upload(batch_.row_token, stream);
  if (!is_on_host()) {
    gathered_.reserve_discarding(batch_.row_token.size() *
                                 static_cast<size_t>(batch_.tokens.row_bytes()));
  }
  const auto for_each_remote = [&](const auto& body) {
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      if (!is_local(rank) && rows_of(rank) > 0) body(rank);
    }
  };
  for_each_remote([&](size_t rank) { fill_message(rank, stream); });
  stream.synchronize();  // the messages are complete
  for_each_remote([&](size_t rank) { post_rows(rank, stream); });
}

void Exchange::run_local(Stream& stream) {
  if (rows_of(own_rank_) == 0) return;
  check(options_.local != nullptr, "rank ", own_rank_, " has rows but no experts");
  const auto start = Clock::now();
  if (options_.self_exchange) {
    serve_own_message(stream);
  } else {
    const auto first = static_cast<size_t>(batch_.row_begin[own_rank_]);
    options_.local->run(
        {.layer = batch_.layer,
         .tokens = batch_.tokens,
         .row_token = batch_.row_token.subspan(first, rows_of(own_rank_)),
         .pair_begin = batch_.pair_begin.subspan(first, rows_of(own_rank_) + 1),
         .slot = batch_.slot,
         .out = {results_.as<std::byte>() + block_begin_[own_rank_] + sizeof(RowHeader),
                 options_.result_dtype}},
        stream);
  }
  totals_.compute_us[own_rank_] += us_since(start);
}

// The way of a worker, taken by this rank for its own message.
void Exchange::serve_own_message(Stream& stream) {
  own_request_.reserve_discarding(send_[own_rank_].size_bytes());
  const RecvOp recv{static_cast<int>(own_rank_), Channel::kRows, own_request_.data(),
                    own_request_.size_bytes()};
  const Pending pending = options_.transport->post({{}, {&recv, 1}}, &stream);
  options_.transport->wait({&pending, 1}, Deadline::after_ms(30000), "own rows");
  const size_t bytes = options_.transport->take_received_bytes(pending).at(0);
  const RowExpectation want{.kind = RowKind::kRows,
                            .epoch = options_.transport->epoch(),
                            .row_dtype = options_.row_dtype,
                            .hidden_size = static_cast<int32_t>(options_.hidden_size),
                            .num_layers = options_.num_layers,
                            .max_rows = options_.max_tokens,
                            .max_pairs = options_.max_tokens * options_.top_k};
  answer(
      parse_row_message({own_request_.as<std::byte>(), bytes}, static_cast<int>(own_rank_), want),
      stream);
}

void Exchange::answer(const RowMessageView& view, Stream& stream) {
  const size_t bytes = results_bytes(view.slots.size());
  own_answer_.reserve_discarding(bytes);
  own_rows_.resize(static_cast<size_t>(view.header->num_rows));
  std::iota(own_rows_.begin(), own_rows_.end(), 0);
  options_.local->run(
      {.layer = view.header->layer,
       .tokens = {view.payload, options_.row_dtype, options_.hidden_size},
       .row_token = own_rows_,
       .pair_begin = view.pair_begin,
       .slot = view.slots,
       .out = {own_answer_.as<std::byte>() + sizeof(RowHeader), options_.result_dtype}},
      stream);
  const RowHeader header =
      results_header(*view.header, options_.result_dtype, bytes - sizeof(RowHeader));
  std::memcpy(own_answer_.data(), &header, sizeof header);
  const SendOp send{static_cast<int>(own_rank_), Channel::kResults, own_answer_.data(), bytes};
  const Pending pending = options_.transport->post({{&send, 1}, {}}, &stream);
  options_.transport->wait({&pending, 1}, Deadline::after_ms(30000), "own results");
}

RowHeader Exchange::check_results(const Remote& remote) const {
  const auto rank = static_cast<size_t>(remote.rank);
  RowHeader header;
  const Buffer& arrived = is_on_host() ? results_ : host_results_;
  std::memcpy(static_cast<void*>(&header), arrived.as<std::byte>() + block_begin_[rank],
              sizeof header);
  const bool fits = header.magic == kRowMagic && header.kind == RowKind::kResults &&
                    header.step == step_ && header.layer == batch_.layer &&
                    header.source_rank == static_cast<int32_t>(own_rank_) &&
                    header.payload_dtype == static_cast<uint8_t>(options_.result_dtype) &&
                    header.payload_bytes + sizeof header == remote.result_bytes;
  if (!fits) {
    fail(ErrorKind::kInternal, "rank ", remote.rank, " answered layer ", header.layer, " step ",
         header.step, " with ", header.payload_bytes, " bytes of type ",
         static_cast<int>(header.payload_dtype), ", want layer ", batch_.layer, " step ", step_,
         " with ", remote.result_bytes - sizeof header, " bytes of type ",
         static_cast<int>(options_.result_dtype), " (", to_string(options_.result_dtype), ")");
  }
  return header;
}

// Polls rank by rank, so that the time each one is waited for is known; at the deadline wait()
// makes its last full pass over all and names those still pending.
void Exchange::wait_for(size_t i, const Deadline& deadline) {
  Backoff backoff(options_.may_spin);
  while (!options_.transport->test(remotes_[i].pending)) {
    if (deadline.expired()) {
      std::vector<Pending> rest;
      for (size_t r = i; r < remotes_.size(); ++r) {
        rest.push_back(remotes_[r].pending);
        if (!options_.transport->test(rest.back())) late_.push_back(remotes_[r].rank);
      }
      options_.transport->wait(rest, deadline, what());
      late_.clear();
      return;
    }
    backoff.pause();
  }
}

std::string Exchange::what() const {
  return "results of layer " + std::to_string(batch_.layer) + ", exchange " + std::to_string(step_);
}

void Exchange::upload_results(const Remote& remote, Stream& stream) {
  if (is_on_host()) return;
  const size_t at = block_begin_[static_cast<size_t>(remote.rank)];
  options_.device->copy(results_.as<std::byte>() + at, host_results_.as<std::byte>() + at,
                        remote.result_bytes, stream);
}

ExpertResults Exchange::finish(const Deadline& deadline, Stream& stream) {
  const auto start = Clock::now();
  for (size_t i = 0; i < remotes_.size(); ++i) {
    const auto wait_start = Clock::now();
    wait_for(i, deadline);
    const auto rank = static_cast<size_t>(remotes_[i].rank);
    const size_t got = options_.transport->take_received_bytes(remotes_[i].pending).at(0);
    if (got != remotes_[i].result_bytes) {
      fail(ErrorKind::kInternal, "rank ", rank, " sent ", got, " bytes as ", what(), ", want ",
           remotes_[i].result_bytes);
    }
    totals_.wait_us[rank] += us_since(wait_start);
    upload_results(remotes_[i], stream);
    totals_.compute_us[rank] += static_cast<double>(check_results(remotes_[i]).compute_ns) / 1000;
  }
  totals_.finish_us += us_since(start);
  return {results_.data(), options_.result_dtype, offset_};
}

}  // namespace

std::unique_ptr<ExpertExchange> make_exchange(const ExchangeOptions& options) {
  return std::make_unique<Exchange>(options);
}

}  // namespace colibri
