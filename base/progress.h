// How far a long read or write is: bytes, rate, time left. One line on a terminal, drawn anew; else
// a line every five seconds, so that a log stays short.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace colibri {

// "loading 3.21 GB of 12.0 GB, 1.50 GB/s, 5.9 s left". Without total_bytes (0) neither "of" nor
// "left"; without time or bytes no rate. The rate is the mean since the start.
std::string progress_text(std::string_view label, uint64_t done_bytes, uint64_t total_bytes,
                          double elapsed_s);

// Where and how often a Progress writes.
struct ProgressSink {
  bool is_terminal = false;
  std::function<void(std::string_view)> write;  // called by one thread at a time
  std::function<double()> now_s;                // seconds, never going back
};

// Standard error and the steady clock. A terminal is what isatty says.
ProgressSink stderr_progress();

// Updates come from any thread; what is shown lags by 0.1 s on a terminal, else by 5 s.
class Progress {
 public:
  // The clock starts now. `label` begins every line.
  Progress(std::string label, uint64_t total_bytes, ProgressSink sink);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Adds to what is done. Thread safe; cheap unless a line is due.
  void add(uint64_t bytes);
  // Replaces both numbers, for sums over ranks. Thread safe.
  void set(uint64_t done_bytes, uint64_t total_bytes);
  // Writes a last line and ends it, if anything was shown before. Call once, after the last update.
  void finish();

 private:
  void show_if_due();
  void show(double now_s, const char* end);

  const std::string label_;
  const ProgressSink sink_;
  const double start_s_;
  std::atomic<uint64_t> done_bytes_{0}, total_bytes_;
  std::atomic<double> next_show_s_;
  std::mutex mutex_;  // of sink_.write and the two below
  size_t shown_width_ = 0;
  bool has_shown_ = false;
};

}  // namespace colibri
