#include "base/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/units.h"

namespace colibri {
namespace {

constexpr double kTerminalEveryS = 0.1;
constexpr double kLogEveryS = 5;

double every_s(const ProgressSink& sink) { return sink.is_terminal ? kTerminalEveryS : kLogEveryS; }

}  // namespace

std::string progress_text(std::string_view label, uint64_t done_bytes, uint64_t total_bytes,
                          double elapsed_s) {
  std::string text(label);
  text += ' ' + format_bytes(static_cast<int64_t>(done_bytes));
  if (total_bytes > 0) text += " of " + format_bytes(static_cast<int64_t>(total_bytes));
  if (done_bytes == 0 || elapsed_s <= 0) return text;
  const double bytes_per_s = static_cast<double>(done_bytes) / elapsed_s;
  char rate[32];
  std::snprintf(rate, sizeof rate, ", %.2f GB/s", bytes_per_s / 1e9);
  text += rate;
  if (total_bytes > done_bytes) {
    const double left_s = static_cast<double>(total_bytes - done_bytes) / bytes_per_s;
    text += ", " + format_seconds(left_s) + " left";
  }
  return text;
}

ProgressSink stderr_progress() {
  return {.is_terminal = ::isatty(STDERR_FILENO) == 1,
          .write =
              [](std::string_view text) {
                std::fwrite(text.data(), 1, text.size(), stderr);
                std::fflush(stderr);
              },
          .now_s =
              [] {
                const auto now = std::chrono::steady_clock::now().time_since_epoch();
                return std::chrono::duration<double>(now).count();
              }};
}

Progress::Progress(std::string label, uint64_t total_bytes, ProgressSink sink)
    : label_(std::move(label)),
      sink_(std::move(sink)),
      start_s_(sink_.now_s()),
      total_bytes_(total_bytes),
      next_show_s_(start_s_ + every_s(sink_)) {}

void Progress::add(uint64_t bytes) {
  done_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  show_if_due();
}

void Progress::set(uint64_t done_bytes, uint64_t total_bytes) {
  done_bytes_.store(done_bytes, std::memory_order_relaxed);
  total_bytes_.store(total_bytes, std::memory_order_relaxed);
  show_if_due();
}

void Progress::finish() {
  std::lock_guard lock(mutex_);
  if (has_shown_) show(sink_.now_s(), "\n");
}

// Of several threads that find a line due, one writes it and the others go on reading.
void Progress::show_if_due() {
  const double now_s = sink_.now_s();
  if (now_s < next_show_s_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || now_s < next_show_s_.load(std::memory_order_relaxed)) return;
  next_show_s_.store(now_s + every_s(sink_), std::memory_order_relaxed);
  show(now_s, sink_.is_terminal ? "" : "\n");
}

// With the mutex held. On a terminal the line is drawn over the one before, padded to its width.
void Progress::show(double now_s, const char* end) {
  std::string text =
      progress_text(label_, done_bytes_.load(), total_bytes_.load(), now_s - start_s_);
  if (sink_.is_terminal) {
    const size_t width = text.size();
    if (width < shown_width_) text.append(shown_width_ - width, ' ');
    shown_width_ = width;
    text.insert(0, 1, '\r');
  }
  has_shown_ = true;
  sink_.write(text + end);
}

}  // namespace colibri
