// Which tokens of which requests go into the next step. A state machine without clock or I/O: what
// it decides depends on the calls made so far and on nothing else.
//
// A sequence waits, or it runs: then it holds pages, and each step takes some of its tokens.
//
// Invariants, after every call:
// * At most max_running sequences run. Waiting ones hold no page.
// * Of running sequences, the one that arrived first is never preempted, so it ends some day, and
//   with it every other becomes the first: all requests end.
// * While a sequence waits for its first admission, at most max_overtakes that arrived after it are
//   admitted for the first time.
// * A step takes at most step.max_tokens tokens: all that decode (one token to run) before any of a
//   prompt, and of one prompt at most step.chunk. With max_running above step.max_tokens, those
//   that arrived last wait for tokens until others end.
// * A step in which a sequence is preempted admits none.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "coordinator/sequence_pages.h"

namespace colibri {

struct StepLimits {
  int64_t max_tokens = 512;  // of all sequences together
  int64_t chunk = 512;       // of one prompt
  // Of all sequences together whose every token has logits that are wanted: they take memory.
  int64_t max_scored = std::numeric_limits<int64_t>::max();
};

struct SchedulerLimits {
  StepLimits step;
  int max_running = 1;
  // Pages that stay free when one is admitted beside others, for those that run to grow into.
  int64_t watermark_pages = 0;
  // A waiting sequence whose pages are not there yet lets so many smaller ones go first.
  int max_overtakes = 16;
};

// Tokens [num_cached, num_cached + count) of a sequence run in this step.
struct StepPart {
  Sequence* sequence = nullptr;
  int64_t count = 0;
};

class Scheduler {
 public:
  // `pages` outlives it.
  Scheduler(SequencePages& pages, const SchedulerLimits& limits);

  // Queues a sequence, which stays where it is until remove(). Its number is above those before.
  void add(Sequence& sequence);
  // Takes a sequence out, whatever it was doing, and gives its pages back.
  void remove(Sequence& sequence);

  // The next step's parts: those that decode, then prompts, each in order of arrival. Their
  // sequences have pages for them. Valid until the next call. Empty only when there is no sequence.
  // Planning again without advance() plans the same tokens again.
  // Errors: kEnvironment when one sequence alone has no room, because others hold the pages.
  std::span<const StepPart> plan();
  // The part's tokens have run. The caller appends what it picked to `ids` before the next plan().
  void advance(const StepPart& part);

  int num_running() const { return static_cast<int>(running_.size()); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }

 private:
  enum class Phase { kDecode, kPrompt };

  void plan_running(Phase phase);
  void plan_part(Sequence& sequence);
  void take_room(const Sequence& sequence, int64_t count);
  bool make_room(Sequence& sequence, int64_t num_positions);
  void preempt(Sequence& sequence);
  void admit();
  bool may_overtake(size_t count) const;
  bool try_admit(Sequence& sequence);
  int64_t num_promised_pages() const;
  void start(std::deque<Sequence*>::iterator waiting);

  SequencePages& pages_;
  SchedulerLimits limits_;
  std::deque<Sequence*> waiting_;   // preempted ones, then the others; each in order of arrival
  std::vector<Sequence*> running_;  // in order of arrival
  std::vector<StepPart> parts_;
  int64_t room_ = 0;         // tokens left in the step that is planned
  int64_t scored_room_ = 0;  // of these, for sequences that are scored
  int64_t num_preemptions_ = 0;
};

}  // namespace colibri
