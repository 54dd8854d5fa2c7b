// Runs a program as ranks of mpirun; each rank writes what came of it into a directory.
#pragma once

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

}  // namespace colibri
