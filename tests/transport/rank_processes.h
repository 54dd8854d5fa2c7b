// Runs a program as ranks of mpirun; each rank writes what came of it into a directory.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace colibri {

struct RankProcesses {
  std::string program;   // in the build directory
  std::string scenario;  // its first argument; the directory is the second
  int num_ranks = 2;
  std::vector<std::string> environment;  // "NAME=value"
};

// The reports by rank ("no report" of a rank that wrote none), then what all wrote to stderr and
// stdout. Ends after 90 seconds at most.
std::vector<std::string> reports_of(const RankProcesses& ranks);

// A scenario of such a program on simulated devices.
struct RankCase {
  std::string scenario;
  int num_ranks;
  std::string fault = "";  // injected into its NCCL
  int victim = -1;         // a rank from which no report is wanted
};
void PrintTo(const RankCase& test, std::ostream* out);
std::string case_name(const testing::TestParamInfo<RankCase>& info);
// Runs it; every rank has to report "ok".
void expect_ok(const std::string& program, const RankCase& test);

}  // namespace colibri
