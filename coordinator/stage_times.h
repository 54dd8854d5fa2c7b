// Where a step's time goes, by stage, added up over steps and layers.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/device.h"
#include "base/trace_log.h"

namespace colibri {

enum class Stage : uint8_t {
  kEmbed,      // embedding rows, rotary angles
  kAttention,  // norm, projections, cache, attention, output projection
  kDenseMlp,   // feed-forward of layers without experts
  kRouter,     // norm, router product, choice
  kDispatch,   // plan, quantising rows, posting messages
  kShared,     // shared expert
  kExperts,    // the coordinator's own slots
  kWait,       // for other ranks' results
  kCombine,    // weighing and adding
  kHead,       // final norm, logits, picked tokens
};
inline constexpr size_t kNumStages = 10;
const char* to_string(Stage stage);

class StageTimes {
 public:
  void add(Stage stage, double us) { us_[static_cast<size_t>(stage)] += us; }
  double us(Stage stage) const { return us_[static_cast<size_t>(stage)]; }

  // Where each stage's span goes too; null: nowhere. It outlives this, or the next set_trace().
  void set_trace(TraceLog* trace) { trace_ = trace; }
  TraceLog* trace() const { return trace_; }

 private:
  std::array<double, kNumStages> us_{};
  TraceLog* trace_ = nullptr;
};

// Adds the time it lives to a stage, and names it for a profiler. On a device that is the time that
// the host takes to enqueue the stage's work, not the work's own.
class StageTimer {
 public:
  StageTimer(StageTimes& times, Stage stage, Device& device)
      : range_(device, to_string(stage)),
        times_(times),
        stage_(stage),
        start_(std::chrono::steady_clock::now()) {}
  ~StageTimer() {
    const auto end = std::chrono::steady_clock::now();
    times_.add(stage_, std::chrono::duration<double, std::micro>(end - start_).count());
    if (times_.trace() == nullptr) return;
    times_.trace()->add({.name = to_string(stage_), .start = start_, .end = end});
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  NamedRange range_;
  StageTimes& times_;
  Stage stage_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace colibri
