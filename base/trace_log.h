// What one rank does, as spans of time, for a viewer of Chrome's trace events (chrome://tracing,
// Perfetto). docs/tracing.md has the file in words.
//
// A TraceLog belongs to one thread. Whoever is traced holds a pointer to it while spans are wanted
// and null otherwise, so that tracing costs a comparison while it is off.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace colibri {

// Lines of a rank in the viewer, each with spans that nest.
enum class TraceTrack : uint8_t { kMain, kExchange };

// How this rank's clock is read so that all ranks' spans have one time.
struct TraceClock {
  std::chrono::steady_clock::time_point origin;  // time 0
  int64_t error_ns = 0;  // by how much another rank's clock may differ from rank 0's
};

class TraceLog {
 public:
  using Clock = std::chrono::steady_clock;
  // Spans beyond are dropped and counted.
  static constexpr size_t kMaxSpans = size_t{1} << 20;

  explicit TraceLog(int rank) : rank_(rank) {}

  // Begins anew.
  void start(const TraceClock& clock);

  struct Span {
    const char* name = nullptr;  // lives as long as the log: a literal, or from name_of()
    Clock::time_point start, end;
    TraceTrack track = TraceTrack::kMain;
    int32_t layer = -1;  // -1: none
    int64_t rows = -1;   // -1: not told
  };
  void add(const Span& span);
  // The layer that spans without one are of, from now on; -1: none.
  void set_layer(int layer) { layer_ = layer; }
  // A name that is made up, kept.
  const char* name_of(const std::string& name) { return names_.insert(name).first->c_str(); }

  size_t num_spans() const { return spans_.size(); }
  uint64_t num_dropped() const { return num_dropped_; }
  // Writes the file, beside its path first, then under it, and forgets the spans. Errors:
  // kEnvironment naming the path and the system's reason.
  void write(const std::string& path);

 private:
  int rank_;
  TraceClock clock_;
  int layer_ = -1;
  std::vector<Span> spans_;
  std::set<std::string> names_;
  uint64_t num_dropped_ = 0;
};

// A span as long as this object lives; nothing where there is no log.
class TraceSpan {
 public:
  TraceSpan(TraceLog* log, const char* name, TraceTrack track = TraceTrack::kMain) : log_(log) {
    if (log_ == nullptr) return;
    span_.name = name;
    span_.track = track;
    span_.start = TraceLog::Clock::now();
  }
  ~TraceSpan() { end(); }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  void end() {
    TraceLog* const log = std::exchange(log_, nullptr);
    if (log == nullptr) return;
    span_.end = TraceLog::Clock::now();
    log->add(span_);
  }

 private:
  TraceLog* log_;
  TraceLog::Span span_;
};

}  // namespace colibri
