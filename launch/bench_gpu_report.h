// What bench_report.h adds for runs on a GPU.
#pragma once

#include <string>
#include <vector>

#include "launch/bench_report.h"

namespace colibri {

// Of one test; medians over its samples.
struct GpuRow {
  double host_ms_per_step = 0;         // that the host did not wait for the GPU or for other ranks
  double kernel_ms_per_step = 0;       // of all operations, by the profile
  double kernel_share = 0;             // of a step's time in the samples
  double fixed_steps = 0, reruns = 0;  // of all samples
  double rerun_share = 0;

  struct Kind {
    std::string name;
    double calls_per_step = 0, ms_per_step = 0, share = 0;  // of all kernels' time
    double gbps = 0, tflops = 0;
  };
  std::vector<Kind> kinds;  // those that were called
};
GpuRow gpu_row_of(const BenchResult& result);

// Several lines and two tables.
std::string gpu_markdown(const BenchReport& report);
// Columns to append to the others: ",name,..." and ",value,...".
std::string gpu_csv_head();
std::string gpu_csv_columns(const BenchReport& report, const BenchResult& result);

}  // namespace colibri
