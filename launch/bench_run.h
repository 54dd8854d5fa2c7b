// The measurements behind `colibri bench`: prefill and decode at several sizes, each repeated, with
// what it did to every stage, rank and byte.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/expert_path.h"
#include "coordinator/stage_times.h"
#include "launch/bench_gpu.h"
#include "launch/bench_traffic.h"
#include "launch/model_session.h"
#include "launch/run_config.h"

namespace colibri {

// One thing that is timed: `batch` prompts of `tokens` tokens until all have been read and gave
// their first new token, or `batch` sequences that each make `tokens` new tokens.
struct BenchCase {
  bool is_prefill = false;
  int64_t tokens = 0;
  int batch = 1;

  std::string name() const;  // "pp512", "tg128"
};

// One repetition of a case.
struct BenchSample {
  double seconds = 0;
  int64_t num_tokens = 0;  // of all sequences: prompt tokens of prefill, new ones of decode
  int64_t num_steps = 0;
  std::array<double, kNumStages> stage_us{};
  Traffic traffic;
  uint64_t dispatch_bytes = 0, combine_bytes = 0, num_messages = 0;
  std::vector<double> wait_us, compute_us;  // [R]
  FixedStepTotals fixed;
  double waited_us = 0;  // for the GPU or for rows of other ranks; a GPU's runs only

  double tokens_per_s() const { return static_cast<double>(num_tokens) / seconds; }
};

// What the simulator says of a step; the groups are those of stages.
struct PredictedStep {
  double step_us = 0;
  double own_us = 0;      // projections, attention, router, and what rows take around an exchange
  double experts_us = 0;  // with the exchange
  double head_us = 0;
};

struct BenchResult {
  BenchCase what;
  std::vector<BenchSample> samples;  // in order
  // Of all samples: [L, E] how often each expert was chosen, and [L] experts with a token, summed
  // over steps.
  std::vector<uint64_t> choices = {}, touched = {};
  std::optional<GpuProfile> profile = {};       // of one further run, on a GPU
  std::optional<PredictedStep> predicted = {};  // bench --predict
};

// All cases that the options ask for, prefill first.
std::vector<BenchCase> bench_cases(const BenchOptions& options);
// Positions that the longest case takes, and the most sequences at once.
SessionNeeds bench_needs(const std::vector<BenchCase>& cases);

struct BenchBed {
  const ModelSession* session = nullptr;
  Serving* serving = nullptr;
  std::function<void()> between;     // called before each repetition
  ProfiledOps* profiled = nullptr;   // the session's, on a GPU
  std::string trace_directory = {};  // "": no trace
};

// Runs every case once unmeasured, then all cases in turn `repetitions` times, so that a slow
// moment of the machine meets all alike. Ends early, with what there is, once a drain is requested.
// With profiled operations each case runs once more, timed call by call; with a directory for
// traces once more, all cases in one trace. Prompts are random ids, the same in every repetition;
// nothing ends a sequence early.
std::vector<BenchResult> run_bench(const std::vector<BenchCase>& cases, int repetitions,
                                   const BenchBed& bed);

}  // namespace colibri
