// Requests in, tokens out, one step after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coordinator/forward.h"
#include "coordinator/request.h"
#include "coordinator/scheduler.h"

namespace colibri {

struct EngineOptions {
  StepLimits limits;
  int64_t max_context = 0;  // most ids of one sequence, prompt and new ones
  int max_batch = 1;        // most sequences at once
  int64_t step_timeout_ms = 30000;
};

struct EngineTotals {
  int64_t num_steps = 0;
  int64_t num_prompt_tokens = 0, num_new_tokens = 0;
  double prefill_s = 0;  // steps with prompt tokens
  double decode_s = 0;   // steps without
};

class Engine {
 public:
  // `forward` and `cache` outlive it. cache holds at least max_batch * max_context positions.
  Engine(Forward& forward, KvCache& cache, int64_t vocab_size, const EngineOptions& options);

  // Queues a request; its number is its place among the added ones.
  // Errors: kInput when the prompt is empty, does not leave room for a token in max_context, or
  // holds an id outside [0, V).
  int add(Request request);

  // Runs one step of up to max_batch sequences in order of arrival. False when nothing is left to
  // do.
  bool step();

  // Ends all sequences as cancelled.
  void cancel_all();

  FinishReason finish_reason(int request) const;
  const EngineTotals& totals() const { return totals_; }

 private:
  struct Sequence {
    Request request;
    int32_t number = 0;  // as add() returned it
    std::vector<int32_t> ids;
    std::vector<int32_t> pages;
    int64_t num_cached = 0;
    FinishReason finish = FinishReason::kNone;
  };

  void choose_running();
  void build_batch();
  void add_part(Sequence& sequence, int64_t count);
  void hand_out(std::span<const StepRow> rows);
  void advance(Sequence& sequence, int64_t count);
  void take_token(Sequence& sequence, int32_t id);
  void end(Sequence& sequence, FinishReason reason);
  std::optional<LogitRow> wanted_of(const Sequence& sequence, int64_t position) const;

  Forward& forward_;
  KvCache& cache_;
  int64_t vocab_size_;
  EngineOptions options_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  size_t first_unfinished_ = 0;
  std::vector<Sequence*> running_;
  std::vector<SequenceState> states_;
  std::vector<StepPart> parts_;
  Batch batch_;
  EngineTotals totals_;
};

}  // namespace colibri
