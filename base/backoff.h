// How a poll loop waits: spin while ranks do not outnumber cores, else poll, yield, then sleep.
// Busy waiting starves the other ranks on a shared machine.
#pragma once

#include <sched.h>

#include <chrono>
#include <thread>

namespace colibri {

class Backoff {
 public:
  explicit Backoff(bool may_spin) : may_spin_(may_spin) {}

  // Call after a poll that found nothing.
  void pause() {
    ++num_pauses_;
    if (may_spin_ && num_pauses_ < kSpins) {
      __builtin_ia32_pause();
    } else if (num_pauses_ < (may_spin_ ? kSpinningYields : kYields)) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(sleep_us_));
      if (sleep_us_ < kMaxSleepUs) sleep_us_ += sleep_us_ / 8 + 1;
    }
  }
  // Call after a poll that found something.
  void reset() {
    num_pauses_ = 0;
    sleep_us_ = kMinSleepUs;
  }

 private:
  // Few spins even where ranks have a core each: with other work on the machine the peer may stand
  // behind this very thread, and only a yield lets it run (tests/bench/transport_bench.cc).
  static constexpr int kSpins = 100, kYields = 200, kSpinningYields = 5000;
  // A sleep is about an eighth of the time waited so far, so that waking late costs little.
  static constexpr int kMinSleepUs = 20, kMaxSleepUs = 1000;
  bool may_spin_;
  int num_pauses_ = 0;
  int sleep_us_ = kMinSleepUs;
};

}  // namespace colibri
