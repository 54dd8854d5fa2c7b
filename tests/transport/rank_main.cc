#include "tests/transport/rank_main.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>

namespace colibri {
namespace {

int run(const RankSuite& suite, const std::string& name, const std::string& directory) {
  const auto mpi = make_mpi_transport(suite.options);
  const std::string report = directory + "/rank_" + std::to_string(mpi->rank());
  std::string result = "ok";
  try {
    suite.run(name, *mpi, report);
  } catch (const std::exception& error) {
    result = error.what();
  }
  std::ofstream(report) << result;
  mpi->dead_ranks();
  // After a loss, or with sends left behind, MPI's end may not come.
  if (result != "ok" || mpi->lost() || suite.is_left_alone(name)) _exit(result == "ok" ? 0 : 1);
  mpi->finalize(0);
  return 0;
}

}  // namespace

int rank_main(int argc, char** argv,
              const std::function<RankSuite(const std::string& name)>& suite) {
  if (argc != 3) return 2;
  RankSuite made = suite(argv[1]);
  made.options.may_spin = false;
  try {
    return run(made, argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", made.program, error.what());
    return 70;
  }
}

}  // namespace colibri
