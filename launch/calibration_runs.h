// The steps that `bench --calibrate` times: shapes made for it, none of which is a released
// model's, so that a prediction of one of those is a prediction.
#pragma once

#include <string>
#include <vector>

#include "launch/rank_context.h"
#include "launch/run_config.h"
#include "launch/step_probe.h"
#include "model/config.h"

namespace colibri {

struct CalibrationShape {
  std::string name;
  ModelConfig config;
  std::vector<StepCase> cases;
};
std::vector<CalibrationShape> calibration_shapes();

// Steps of one shape, with its sizes as kept in memory.
struct CalibrationRun {
  ModelShape shape;
  std::vector<StepSample> samples;
};

// Called by all ranks together; the runs on rank 0, empty elsewhere. Takes half a minute to some
// minutes, and some GB of memory.
std::vector<CalibrationRun> run_calibration(const RunConfig& config, RankContext& context);

}  // namespace colibri
