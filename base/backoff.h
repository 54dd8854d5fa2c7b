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
    } else if (num_pauses_ < kSpins + kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(sleep_us_));
      if (sleep_us_ < kMaxSleepUs) sleep_us_ += sleep_us_ / 4 + 1;
    }
  }
  // Call after a poll that found something.
  void reset() {
    num_pauses_ = may_spin_ ? 0 : kSpins;
    sleep_us_ = kMinSleepUs;
  }

 private:
  static constexpr int kSpins = 4000, kYields = 200, kMinSleepUs = 20, kMaxSleepUs = 1000;
  bool may_spin_;
  int num_pauses_ = 0;
  int sleep_us_ = kMinSleepUs;
};

}  // namespace colibri
