// How the tokens of a layer reach the experts that the router chose, and how the results come back:
// all that the layer knows. host_path.h plans on the host and works on every backend; device_path.h
// leaves the plan on the GPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "coordinator/batch.h"
#include "coordinator/load_stats.h"
#include "transport/device_link.h"
#include "transport/expert_exchange.h"

namespace colibri {

// One layer of one step after the router, everything where the backend computes. Rows live until
// the step's next layer, ids and weights until the step's end.
struct RoutedTokens {
  int layer = 0;
  const Batch* batch = nullptr;
  TokenRows rows;                            // [T] as the experts take them
  int32_t* expert_ids = nullptr;             // [T, K], ascending within a token
  float* weights = nullptr;                  // [T, K]
  const int32_t* num_real_tokens = nullptr;  // tokens from there on are padding

  int64_t num_tokens() const { return batch->num_tokens(); }
};

// Fails with kInput naming layer and position if the router found a token's logits not finite
// (ids [T, K] in host memory, -1 at such a token's front).
void check_choice(int layer, const Batch& batch, std::span<const int32_t> ids, int64_t top_k);

// The result of choice (t, k) begins at element offset[t * K + k] of data.
struct LocatedResults {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // kF32 or kBF16
  const int64_t* offset = nullptr;
};

// Steps whose messages have a fixed size, and how many of them had to run again.
struct FixedStepTotals {
  uint64_t num_steps = 0, num_reruns = 0;
};

class ExpertPath {
 public:
  virtual ~ExpertPath() = default;
  // Around the layers of a step. end_step() returns once the step's work is done, or false when the
  // step has to run again, from its inputs on: what it wrote is of no use, but for keys and values,
  // which are written again. Errors: those of begin, where they show only now.
  // `padded` is `batch` with tokens at its end that nobody asked for, or `batch` itself.
  virtual void begin_step(const Batch& /*batch*/, const Batch& /*padded*/, Stream&) {}
  virtual bool end_step(const Deadline& deadline, Stream& stream) = 0;
  // Largest T of steps that may be captured as a graph and replayed; 0: none may.
  virtual int64_t max_captured_tokens() const { return 0; }
  // Between begin_step and end_step: steps of the same key do the same work, and a graph of one
  // serves all; nothing: this step cannot be captured.
  virtual std::optional<uint64_t> graph_key() const { return std::nullopt; }
  // Sends the rows of other ranks. One layer at a time. Errors: kInput when the router's logits
  // were not finite; those of Transport::wait.
  virtual void begin(const RoutedTokens& tokens, const Deadline& deadline, Stream& stream) = 0;
  // Runs this rank's own rows; call between begin and finish.
  virtual void run_local(Stream& stream) = 0;
  // Results valid until the next begin. Errors: those of Transport::wait.
  virtual LocatedResults finish(const Deadline& deadline, Stream& stream) = 0;
  virtual const LoadStats& load_stats() const = 0;
  // Since it was made.
  virtual ExchangeTotals totals() const = 0;
  virtual FixedStepTotals fixed_steps() const { return {}; }
  // After a step failed with kTimeout: the ranks that it was waiting for.
  virtual std::vector<int> late_ranks() const { return {}; }
  // After a step failed and before the transport's epoch moves on: gives up what is under way.
  virtual void give_up() {}
  // After give_up(), where rows travel between devices: they take this link from now on.
  virtual void relinked(DeviceLink& /*link*/) {}
  // Between two steps: the placement it was made with has been assigned anew.
  virtual void placement_changed() {}
};

}  // namespace colibri
