#include "launch/calibrate.h"

#include <fmt/format.h>

#include <cstdio>

#include "launch/calibration_runs.h"

namespace colibri {

int calibrate(const RunConfig& config, RankContext& context) {
  const std::vector<CalibrationRun> runs = run_calibration(config, context);
  for (const CalibrationRun& run : runs) {
    for (const StepSample& s : run.samples) {
      fmt::print("{} H{} T{} ctx{} step {:.0f} us touched {:.1f}:", s.what.is_prefill ? "pp" : "tg",
                 run.shape.hidden_size, s.what.num_tokens, s.what.context, s.step_us, s.touched);
      double sum = 0;
      for (size_t i = 0; i < kNumStages; ++i) {
        fmt::print(" {} {:.0f}", to_string(static_cast<Stage>(i)), s.stage_us[i]);
        sum += s.stage_us[i];
      }
      fmt::print(" rest {:.0f}", s.step_us - sum);
      for (size_t r = 1; r < s.compute_us.size(); ++r) {
        fmt::print(" | rank {} computes {:.0f} waited {:.0f}", r, s.compute_us[r], s.wait_us[r]);
      }
      fmt::print("\n");
    }
  }
  return 0;
}

}  // namespace colibri
