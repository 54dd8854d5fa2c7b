// The latest values of something that is measured often, for its median and its tail.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

namespace colibri {

struct Percentiles {
  size_t count = 0;
  double p50 = 0, p99 = 0;  // 0 when there are no values
};

// May be used from any thread. Adding costs the same however many there are.
class RecentValues {
 public:
  using Clock = std::chrono::steady_clock;
  // The last `capacity` values, of which those older than `window` no longer count.
  RecentValues(size_t capacity, Clock::duration window);

  void add(Clock::time_point at, double value);
  // The smallest value that at least half (99 %) of them do not exceed.
  Percentiles percentiles(Clock::time_point now) const;

 private:
  struct Entry {
    Clock::time_point at;
    double value = 0;
  };

  Clock::duration window_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // a ring
  size_t num_added_ = 0;
};

}  // namespace colibri
