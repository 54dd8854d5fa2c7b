#include "tests/transport/rank_processes.h"

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace colibri {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return file ? text.str() : "no report";
}

}  // namespace

std::vector<std::string> reports_of(const RankProcesses& ranks) {
  std::string name = (std::filesystem::temp_directory_path() / "colibri-ranks-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  const std::filesystem::path directory = name;
  std::string command = "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ";
  for (const std::string& variable : ranks.environment) command += variable + " ";
  command += "timeout --kill-after=5 90 mpirun -n " + std::to_string(ranks.num_ranks) +
             " --oversubscribe --bind-to none --enable-recovery --quiet " COLIBRI_BINARY_DIR "/" +
             ranks.program + " " + ranks.scenario + " " + name + " </dev/null >" +
             (directory / "output").string() + " 2>&1";
  const int status = std::system(command.c_str());
  std::vector<std::string> reports;
  for (int rank = 0; rank < ranks.num_ranks; ++rank) {
    reports.push_back(contents(directory / ("rank_" + std::to_string(rank))));
  }
  reports.push_back("mpirun's status " + std::to_string(status) + "\n" +
                    contents(directory / "output"));
  std::filesystem::remove_all(directory);
  return reports;
}

void PrintTo(const RankCase& test, std::ostream* out) {
  *out << test.scenario << " on " << test.num_ranks << " ranks";
}

std::string case_name(const testing::TestParamInfo<RankCase>& info) {
  return info.param.scenario + "On" + std::to_string(info.param.num_ranks);
}

void expect_ok(const std::string& program, const RankCase& test) {
  RankProcesses ranks{program, test.scenario, test.num_ranks, {"COLIBRI_SIM_DEVICES=4"}};
  if (!test.fault.empty()) ranks.environment.push_back("COLIBRI_SIM_NCCL_FAULT=" + test.fault);
  const auto reports = reports_of(ranks);
  for (int rank = 0; rank < test.num_ranks; ++rank) {
    if (rank == test.victim) continue;
    EXPECT_EQ(reports[static_cast<size_t>(rank)], "ok") << "rank " << rank << "\n"
                                                        << reports.back();
  }
}

}  // namespace colibri
