// The only thing the forward pass knows about where experts live.
//
// begin() posts the remote rows; own slots run when asked, while rows travel; finish() waits for
// the results, which lie in plan order at the offsets that result_offset() tells.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/device.h"
#include "transport/row_batch.h"

namespace colibri {

// Activations as the experts' first product reads them, one row a token, rows one after the other.
struct TokenRows {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // kF32, kBF16: [T, H]; kI8: quantised rows (base/quantised.h)
  int64_t width = 0;          // H

  int64_t row_bytes() const { return token_row_bytes(dtype, width); }
};

// Where experts write their results: [pairs, H], one row after the other.
struct ResultRows {
  void* data = nullptr;
  DType dtype = DType::kF32;  // kF32 or kBF16, the same on all ranks
};

// What one layer of one step asks of all ranks. Arrays belong to the caller and live until
// finish(). Row s of destination r, s in [row_begin[r], row_begin[r+1]), is token row_token[s] and
// wants the slots slot[pair_begin[s] .. pair_begin[s+1]) of that rank's list for this layer.
struct RowBatch {
  int layer = 0;
  TokenRows tokens;
  int64_t num_tokens = 0;
  std::span<const int32_t> row_begin;   // [R + 1]
  std::span<const int32_t> row_token;   // [S]
  std::span<const int32_t> pair_begin;  // [S + 1]
  std::span<const int32_t> slot;        // [P]
};

// Runs the slots this rank holds itself: worker/'s ExpertShard behind an interface, so that
// coordinator/ and worker/ need not know each other. out: one row a pair, in the order of the
// pairs.
struct LocalRows {
  int layer = 0;
  TokenRows tokens;
  std::span<const int32_t> row_token;   // [S_local]
  std::span<const int32_t> pair_begin;  // [S_local + 1], first may be non-zero
  std::span<const int32_t> slot;        // indexed by pair_begin
  ResultRows out = {};
};
class LocalExperts {
 public:
  virtual ~LocalExperts() = default;
  virtual void run(const LocalRows& rows, Stream& stream) = 0;
};

// Gives a rank other experts while those it has go on running. One thread, that of run().
class ExpertHolder {
 public:
  virtual ~ExpertHolder() = default;
  // Begins to read, on threads of its own, what this rank holds under the placement (its file form,
  // docs/placement.md) and does not hold now. An earlier change that was not adopted is dropped.
  // `is_urgent`: nothing else runs meanwhile, so every core may read. Returns soon.
  // Errors: kInput for a placement that does not fit; kEnvironment when memory ends.
  virtual void begin_change(std::string_view placement_text, bool is_urgent) = 0;
  // True once the change has been read. Errors: those of the reading. Never blocks.
  virtual bool is_change_read() = 0;
  // From the next run() on, slots are those of the change, which has been read.
  virtual void adopt_change() = 0;
  // Forgets a change. Waits for the thread that reads it.
  virtual void drop_change() = 0;
};

// The same as LocalExperts for rows whose counts only the device knows; every array lies where the
// device computes. Rows [0, *num_rows), or rows [row_range[0], row_range[1]) where num_rows is
// null, are rows row_token[row] of `tokens` (row itself where that is null). The bounds size the
// work. Results: one a pair, those past max_results dropped. Faults of the counts set bits of
// *flags (kernels/exchange_ops.h).
struct DeviceRows {
  int layer = 0;
  TokenRows tokens;
  const int32_t* num_rows = nullptr;
  const int32_t* row_range = nullptr;
  const int32_t* row_token = nullptr;
  const int32_t* pair_begin = nullptr;
  const int32_t* slot = nullptr;
  int64_t max_rows = 0, max_pairs = 0, max_results = 0;
  ResultRows out = {};
  uint32_t* flags = nullptr;
};
class DeviceExperts {
 public:
  virtual ~DeviceExperts() = default;
  virtual void run(const DeviceRows& rows, Stream& stream) = 0;
};

// A row message where the device computes, laid out for so many rows and pairs however many it
// holds.
struct ArrivedMessage {
  const void* data = nullptr;
  int64_t max_rows = 0, max_pairs = 0;
  DType row_dtype = DType::kF32;
  int64_t hidden_size = 0;
};
// Its rows; layer, results and flags are left to the caller.
DeviceRows rows_of(const ArrivedMessage& message);

// What finish() returns: the result of pair p begins at element offset[p] of data.
struct ExpertResults {
  const void* data = nullptr;
  DType dtype = DType::kF32;        // kF32 or kBF16
  std::span<const int64_t> offset;  // [P]
};

// Sums over the life of an exchange, for the summary.
struct ExchangeTotals {
  uint64_t dispatch_bytes = 0, combine_bytes = 0;
  uint64_t num_rows = 0, num_messages = 0;
  std::vector<double> wait_us;     // [R] time the coordinator waited for each rank
  std::vector<double> compute_us;  // [R] time each rank said it computed
  double finish_us = 0, begin_us = 0;
  // [L, R] results asked of each rank, itself included: tokens times their experts there.
  std::vector<uint64_t> layer_pairs = {};
};

class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  // Sends the remote rows. One batch at a time.
  virtual void begin(const RowBatch& batch, Stream& stream) = 0;
  // Runs this rank's own rows; call between begin and finish.
  virtual void run_local(Stream& stream) = 0;
  // Waits for every result. Valid until the next begin. Errors as Transport::wait.
  virtual ExpertResults finish(const Deadline& deadline, Stream& stream) = 0;
  virtual const ExchangeTotals& totals() const = 0;
  // After finish() failed with kTimeout: the ranks whose results had not come.
  virtual std::vector<int> late_ranks() const { return {}; }
  // After a failure, before the epoch moves on: forgets the batch under way. Messages may still
  // arrive where they were expected, so that memory is left to the transport and taken anew.
  virtual void restart() {}
};

}  // namespace colibri
