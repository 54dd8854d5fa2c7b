// A point in time handed down every wait, so that nested waits share one budget.
#pragma once

#include <chrono>
#include <cstdint>

namespace colibri {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after_ms(int64_t ms) { return Deadline(Clock::now(), ms); }
  // For waits that only the death of a peer may end. Never expires.
  static Deadline never() { return Deadline(); }

  bool expired() const { return !is_never_ && Clock::now() >= end_; }
  bool is_never() const { return is_never_; }
  // Milliseconds since the deadline was made, for messages.
  int64_t waited_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_).count();
  }
  // Milliseconds left, at least 0; a large number when it never expires.
  int64_t remaining_ms() const {
    if (is_never_) return int64_t{1} << 40;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    return left.count() > 0 ? left.count() : 0;
  }

 private:
  Deadline() : start_(Clock::now()), end_(start_), is_never_(true) {}
  Deadline(Clock::time_point start, int64_t ms)
      : start_(start), end_(start + std::chrono::milliseconds(ms)), is_never_(false) {}

  Clock::time_point start_, end_;
  bool is_never_;
};

}  // namespace colibri
