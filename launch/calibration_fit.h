// From timed steps to the numbers of a device and of the messages between two ranks.
#pragma once

#include <array>
#include <vector>

#include "launch/calibration_runs.h"
#include "topology/cluster.h"
#include "topology/op_fit.h"

namespace colibri {

struct CalibrationFit {
  // Of one rank's threads. Wide and narrow costs are alike: those of the forms that were timed.
  DeviceSpec device;
  double link_gbps = 0;                        // between two ranks, one direction; 0: there was one
  std::array<FitError, kNumOpKinds> errors{};  // of each kind, predicted against measured
};

// Of steps of one rank, or of rank 0 without experts and the others with equal parts of them, whose
// slowest counts. kInput without runs.
CalibrationFit fit_calibration(const std::vector<CalibrationRun>& runs);

// The machine of that fit: a CPU part for each rank, joined by links of the measured rate.
Cluster calibrated_cluster(const CalibrationFit& fit, int num_ranks, const std::string& name);

}  // namespace colibri
