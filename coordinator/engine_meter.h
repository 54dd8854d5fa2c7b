// What the engine has done: read on its own thread after each step, shown to any other. Sums go on
// where the parts that count are made anew and begin with less.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "coordinator/engine.h"
#include "topology/placement.h"

namespace colibri {

struct EngineReading {
  EngineState state;
  EngineTotals totals;
  uint64_t dispatch_bytes = 0, combine_bytes = 0;
  // A pair is a token at one of its chosen experts.
  std::vector<uint64_t> layer_pairs;                // [L, R]
  std::vector<double> wait_s;                       // [R] the coordinator's waits for a rank
  std::vector<uint64_t> expert_tokens;              // [L, E]
  int num_experts = 0;                              // E
  std::chrono::steady_clock::time_point last_step;  // its end; the meter's start before any

  // Of a window of 10 to 20 seconds of work; the last one of which anything is known.
  std::vector<double>
      balancedness;                // [L] pairs of a rank with experts, mean over largest; -1: none
  std::vector<double> wait_share;  // [R] of the steps' time
  // Of the last five seconds.
  double prompt_tokens_per_s = 0, new_tokens_per_s = 0;

  size_t num_ranks() const { return wait_s.size(); }
  size_t num_layers() const { return num_ranks() == 0 ? 0 : layer_pairs.size() / num_ranks(); }
  uint64_t rank_pairs(size_t rank) const;
};

class EngineMeter {
 public:
  using Clock = std::chrono::steady_clock;
  explicit EngineMeter(Clock::time_point now);

  // On the engine's thread, after each step: looks closer ten times a second at most, else it
  // costs a comparison.
  void step_done(const Engine& engine, Clock::time_point now);
  // On the engine's thread, when nothing is left to do: looks if it has not since the last step.
  void idle(const Engine& engine, Clock::time_point now);

  // On any thread. Who holds experts; until then balancedness is not known.
  void set_placement(const Placement& placement);
  EngineReading read(Clock::time_point now) const;

 private:
  // Where sums stood when a window began.
  struct Anchor {
    Clock::time_point at;
    double busy_s = 0;
    std::vector<uint64_t> layer_pairs;
    std::vector<double> wait_s;
  };
  struct Point {
    Clock::time_point at;
    int64_t prompt_tokens = 0, new_tokens = 0;
  };

  void look(const Engine& engine, Clock::time_point now);
  void add_totals(const EngineTotals& totals);
  void add_state(const EngineState& state);
  void add_exchange(const ExchangeTotals& totals);
  void add_experts(const LoadStats& stats);
  void look_at_window(Clock::time_point now);
  double busy_s() const { return reading_.totals.prefill_s + reading_.totals.decode_s; }
  Anchor anchor(Clock::time_point now) const;
  void add_point(Clock::time_point now);

  // Of the engine's thread.
  Clock::time_point last_step_, next_look_;
  bool is_behind_ = false;  // a step has not been looked at
  EngineTotals seen_totals_;
  EngineState seen_state_;
  uint64_t seen_dispatch_bytes_ = 0, seen_combine_bytes_ = 0;
  std::vector<uint64_t> seen_pairs_, seen_experts_;
  std::vector<double> seen_wait_s_;

  mutable std::mutex mutex_;  // of all below
  EngineReading reading_;
  std::vector<int> num_holders_;  // [L] ranks with experts
  Anchor older_, newer_;
  std::deque<Point> points_;
};

}  // namespace colibri
