// Requests in, tokens out, one step after the other.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "coordinator/continuation_scores.h"
#include "coordinator/forward.h"
#include "coordinator/request.h"
#include "coordinator/scheduler.h"
#include "coordinator/sequence_pages.h"

namespace colibri {

struct EngineOptions {
  StepLimits limits;
  int64_t max_context = 0;  // most ids of one sequence, prompt and new ones
  int max_batch = 1;        // most sequences at once
  int64_t step_timeout_ms = 30000;
  // Where the cache has less than max_batch * max_context positions: as SchedulerLimits says.
  int64_t watermark_pages = 0;
  int max_overtakes = 16;
  // Set: prompts that begin like an earlier text reuse its pages. Different for every model and
  // engine. What a request gets is the same bytes; what it costs is not.
  std::optional<uint64_t> prefix_salt = {};
};

struct EngineTotals {
  int64_t num_steps = 0;
  int64_t num_prompt_tokens = 0;  // that ran: reused ones do not count, recomputed ones do again
  int64_t num_new_tokens = 0;
  double prefill_s = 0;  // steps with prompt tokens
  double decode_s = 0;   // steps without
};

// How things stand between two steps.
struct EngineState {
  int num_running = 0, num_waiting = 0;
  int64_t num_preemptions = 0;  // since the engine was made
  int64_t num_pages = 0;        // of the cache
  int64_t num_idle_pages = 0;   // free, or kept only in case a prompt begins alike
  PrefixStats prefixes;
};

// Not thread-safe. Callbacks of requests run inside step(), cancel() and cancel_all(); they may
// call add(), cancel() and cancel_all(), and nothing else. What a callback throws leaves step();
// after it no more steps run.
class Engine {
 public:
  // `forward` and `cache` outlive it. cache holds at least max_context positions; with less than
  // max_batch * max_context, sequences wait for pages and may be preempted: they lose their pages,
  // wait, and are computed again, which no result shows. A step has at most max_batch tables of
  // max_context positions, which may share pages: ForwardContext::max_table_entries covers them.
  Engine(Forward& forward, KvCache& cache, int64_t vocab_size, const EngineOptions& options);
  ~Engine();  // calls no callback
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request; its number is its place among the added ones. It may join the next step.
  // Errors: kInput when the prompt is empty, does not leave room for a token in max_context, or
  // holds an id outside [0, V); the same of a continuation, which needs room for all its tokens.
  int add(Request request);

  // Runs one step of up to max_batch sequences, as Scheduler plans it. False when nothing is left
  // to do. Errors: those of Forward::run; the same tokens run again in the next step.
  bool step();

  // Ends a request as cancelled, whatever it was doing; its pages are free when the current step,
  // if there is one, is over. False when it has ended before.
  bool cancel(int request);
  // Ends all requests as cancelled.
  void cancel_all();

  // Of a request without on_end; kNone while it has not ended.
  FinishReason finish_reason(int request) const;
  const EngineTotals& totals() const { return totals_; }
  EngineState state() const;
  const Forward& forward() const { return forward_; }
  // Gives back the pages that are kept only in case a prompt begins alike.
  void forget_prefixes() { pages_.forget_prefixes(); }

 private:
  struct Live {
    Request request;
    Sequence sequence;
    int64_t num_handed_out = 0;  // leading positions whose logits were handed out, if wanted
    bool has_begun = false;
    bool has_started = false;
    std::optional<LogitRules> rules = {};
    std::optional<ContinuationScores> continuations = {};

    bool wants_logits() const { return request.on_logits || request.on_score; }
    FinishReason finish = FinishReason::kNone;
  };

  void check_prompt(const Request& request) const;
  void check_ids(std::span<const int32_t> ids, const char* what) const;
  Live& live(const StepPart& part) { return *live_.at(part.sequence->number); }
  void build_batch();
  void add_part(const Live& live, int64_t count);
  void hand_out(std::span<const StepRow> rows);
  void hand_out_row(Live& live, const LogitRow& wanted, const StepRow& row);
  void show_row(Live& live, const LogitRow& wanted, const StepRow& row) const;
  void advance(const StepPart& part);
  void take_token(Live& live, int32_t id);
  void end(Live& live, FinishReason reason);
  void retire_ended();
  bool begin_continuation(Live& live);
  std::optional<LogitRow> wanted_of(const Live& live, int64_t position) const;

  Forward& forward_;
  KvCache& cache_;
  int64_t vocab_size_;
  EngineOptions options_;
  SequencePages pages_;
  Scheduler scheduler_;
  int32_t num_added_ = 0;
  std::map<int32_t, std::unique_ptr<Live>> live_;      // by number
  std::unordered_map<int32_t, FinishReason> reasons_;  // of ended requests without on_end
  std::deque<int32_t> ended_;                          // numbers, to be retired
  std::span<const StepPart> parts_;                    // of this step
  bool hands_out_ = false;
  Batch batch_;
  EngineTotals totals_;
};

}  // namespace colibri
