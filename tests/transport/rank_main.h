// The main of a program that is one rank of a suite's scenarios: NAME DIR. The rank writes
// DIR/rank_<r>: "ok", or what went wrong.
#pragma once

#include <functional>
#include <string>

#include "transport/mpi_transport.h"

namespace colibri {

struct RankSuite {
  const char* program = "";
  // Runs the scenario of that name; `report` is where this rank's report goes.
  std::function<void(const std::string& name, MpiTransport& mpi, const std::string& report)> run;
  MpiOptions options = {};
  // Of a scenario that leaves ranks behind who do not come to MPI's end.
  std::function<bool(const std::string& name)> is_left_alone = [](const std::string&) {
    return false;
  };
};

int rank_main(int argc, char** argv,
              const std::function<RankSuite(const std::string& name)>& suite);

}  // namespace colibri
