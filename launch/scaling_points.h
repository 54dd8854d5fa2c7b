// Measured points of a scaling experiment (launch/scale.sh) beside what was predicted for them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/run_config.h"

namespace colibri {

// One test of one run of `bench --format json`.
struct ScalingPoint {
  std::string model, placement, transport, routing, weights;
  int ranks = 1, threads = 1, batch = 1;
  bool is_prefill = false;
  int64_t tokens = 0;  // of a prompt, or new ones of each sequence
  double tokens_per_s = 0, ms_per_step = 0;
  double deviation = 0;                         // of tokens_per_s over the repetitions
  std::optional<double> predicted_ms_per_step;  // bench --predict

  int num_rounds = 1;
  // Predicted over measured, less 1.
  std::optional<double> error() const;
};

// The points of a report of bench. `where` (a path) begins every message. kInput for what is no
// such report, with the key.
std::vector<ScalingPoint> parse_points(const std::string& json, const std::string& where);

// Of all files *.json in a directory, by name. kInput when there is none.
std::vector<ScalingPoint> read_points(const std::filesystem::path& directory);

// Points that are alike but for their times (rounds of one experiment) as one, with medians; in
// order of the first of each.
std::vector<ScalingPoint> merge_rounds(const std::vector<ScalingPoint>& points);

// A line a point, and at the end median and largest error.
std::string points_table(const std::vector<ScalingPoint>& points);
std::string points_csv(const std::vector<ScalingPoint>& points);
// Tokens/s over ranks: a solid curve for each combination of the rest, dashed where predicted.
std::string points_svg(const std::vector<ScalingPoint>& points);

// simulate --points: prints the table and writes the chart; returns the exit code.
int compare_points(const SimulateOptions& options);

}  // namespace colibri
