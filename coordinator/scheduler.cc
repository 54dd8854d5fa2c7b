#include "coordinator/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace colibri {
namespace {

bool arrived_before(const Sequence* a, const Sequence* b) { return a->number < b->number; }

}  // namespace

Scheduler::Scheduler(SequencePages& pages, const SchedulerLimits& limits)
    : pages_(pages), limits_(limits) {
  check(limits.step.max_tokens > 0 && limits.step.chunk > 0 && limits.max_running > 0 &&
            limits.step.max_scored > 0,
        "steps of ", limits.step.max_tokens, " tokens, chunks of ", limits.step.chunk, ", ",
        limits.max_running, " sequences at once; want at least one of each");
}

void Scheduler::add(Sequence& sequence) { waiting_.push_back(&sequence); }

void Scheduler::remove(Sequence& sequence) {
  std::erase(waiting_, &sequence);
  std::erase(running_, &sequence);
  pages_.release(sequence);
}

std::span<const StepPart> Scheduler::plan() {
  parts_.clear();
  room_ = limits_.step.max_tokens;
  scored_room_ = limits_.step.max_scored;
  const int64_t preemptions_before = num_preemptions_;
  plan_running(Phase::kDecode);
  plan_running(Phase::kPrompt);
  if (num_preemptions_ == preemptions_before) admit();
  return parts_;
}

void Scheduler::plan_running(Phase phase) {
  // Preemption shortens the list from its end only.
  for (size_t i = 0; i < running_.size() && room_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    const int64_t to_run = sequence.num_to_run();
    if (to_run > 0 && (to_run == 1) == (phase == Phase::kDecode)) plan_part(sequence);
  }
}

void Scheduler::plan_part(Sequence& sequence) {
  const int64_t room = sequence.is_scored ? std::min(room_, scored_room_) : room_;
  const int64_t count = std::min({sequence.num_to_run(), limits_.step.chunk, room});
  if (count == 0 || !make_room(sequence, sequence.num_cached + count)) return;
  parts_.push_back({&sequence, count});
  take_room(sequence, count);
}

void Scheduler::take_room(const Sequence& sequence, int64_t count) {
  room_ -= count;
  if (sequence.is_scored) scored_room_ -= count;
}

// False when the sequence itself had to go: it is the youngest.
bool Scheduler::make_room(Sequence& sequence, int64_t num_positions) {
  while (!pages_.grow(sequence, num_positions)) {
    Sequence& youngest = *running_.back();
    if (running_.size() == 1) {
      fail(ErrorKind::kEnvironment, "the KV cache has ", pages_.num_available(),
           " pages left, want ",
           SequencePages::pages_for(num_positions) - static_cast<int64_t>(sequence.pages.size()),
           " for the only sequence that runs; raise --max-context or --max-batch");
    }
    preempt(youngest);
    if (&youngest == &sequence) return false;
  }
  return true;
}

void Scheduler::preempt(Sequence& sequence) {
  ++num_preemptions_;
  running_.pop_back();
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const StepPart& planned) {
    return planned.sequence == &sequence;
  });
  if (part != parts_.end()) {
    take_room(sequence, -part->count);
    parts_.erase(part);
  }
  pages_.release(sequence);
  waiting_.push_front(&sequence);
}

// First come, first served. One that finds no room lets those behind it try, until it was overtaken
// often enough.
void Scheduler::admit() {
  size_t num_left_behind = 0;
  while (num_left_behind < waiting_.size() && may_overtake(num_left_behind)) {
    if (num_running() == limits_.max_running || room_ == 0) return;
    if (try_admit(*waiting_[num_left_behind])) {
      start(waiting_.begin() + static_cast<ptrdiff_t>(num_left_behind));
    } else {
      ++num_left_behind;
    }
  }
}

// Whether the first `count` that wait would let another go first.
bool Scheduler::may_overtake(size_t count) const {
  const auto most = static_cast<size_t>(limits_.max_overtakes);
  return count <= most &&
         std::none_of(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count),
                      [&](const Sequence* s) { return s->num_passed >= limits_.max_overtakes; });
}

// Takes pages it shares and no others; those for its chunk follow with its part.
bool Scheduler::try_admit(Sequence& sequence) {
  pages_.begin(sequence);
  const int64_t needed =
      SequencePages::pages_for(sequence.num_known()) - static_cast<int64_t>(sequence.pages.size());
  const int64_t left = pages_.num_available() - num_promised_pages() - needed;
  if (running_.empty() || left >= limits_.watermark_pages) return true;
  pages_.release(sequence);
  return false;
}

// What running prompts will still take for the ids they have.
int64_t Scheduler::num_promised_pages() const {
  int64_t sum = 0;
  for (const Sequence* sequence : running_) {
    const int64_t more = SequencePages::pages_for(sequence->num_known()) -
                         static_cast<int64_t>(sequence->pages.size());
    sum += std::max<int64_t>(more, 0);  // one that goes back in its text keeps its pages
  }
  return sum;
}

void Scheduler::start(std::deque<Sequence*>::iterator waiting) {
  Sequence& sequence = **waiting;
  if (!sequence.was_admitted) {
    pages_.count(sequence);
    for (auto it = waiting_.begin(); it != waiting; ++it) ++(*it)->num_passed;
  }
  sequence.was_admitted = true;
  waiting_.erase(waiting);
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, arrived_before),
                  &sequence);
  plan_part(sequence);
}

void Scheduler::advance(const StepPart& part) {
  part.sequence->num_cached += part.count;
  pages_.publish(*part.sequence);
}

}  // namespace colibri
