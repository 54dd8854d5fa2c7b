// Runs the suite with ranks as processes, started by mpirun.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/transport/transport_suite.h"

namespace colibri {
namespace {

struct Case {
  std::string name;
  int num_ranks;
  int victim;  // -1: no rank is killed
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.name << " on " << test.num_ranks << " ranks";
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return file ? text.str() : "no report";
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = testing::TempDir() + "colibri-mpi-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class MpiTransportTest : public testing::TestWithParam<Case> {};

TEST_P(MpiTransportTest, Holds) {
  const Case& test = GetParam();
  const TemporaryDirectory directory;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const std::string command =
      "timeout --kill-after=5 90 mpirun -n " + std::to_string(test.num_ranks) +
      " --oversubscribe --bind-to none --enable-recovery --quiet " COLIBRI_BINARY_DIR
      "/mpi_suite " +
      test.name + " " + directory.path().string() + " </dev/null >" +
      (directory.path() / "output").string() + " 2>&1";
  const int status = std::system(command.c_str());
  for (int rank = 0; rank < test.num_ranks; ++rank) {
    if (rank == test.victim) continue;
    EXPECT_EQ(contents(directory.path() / ("rank_" + std::to_string(rank))), "ok")
        << "rank " << rank << ", mpirun's status " << status << "\n"
        << contents(directory.path() / "output");
  }
}

int victim_of(const Scenario& scenario, int num_ranks) {
  if (scenario.name == "WorkersNoticeTheLossOfTheCoordinator") return 0;
  if (scenario.name == "ReportOutweighsALoss") return 1;
  return num_ranks - 1;
}

std::vector<Case> cases() {
  std::vector<Case> all = {{"all", 1, -1}, {"all", 2, -1}, {"all", 3, -1}, {"all", 5, -1}};
  all.push_back({"HeartbeatTellsOfALoss", 3, 2});
  for (const Scenario& scenario : all_scenarios()) {
    if (scenario.kills) all.push_back({scenario.name, 3, victim_of(scenario, 3)});
  }
  for (const char* name :
       {"LostRankIsNamedAndSurvivorsGoOn", "LossInMidTransferLeavesSurvivorsWorking"}) {
    all.push_back({name, 2, 1});
    all.push_back({name, 5, 4});
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const std::string name = info.param.name == "all" ? "AllThatKillNobody" : info.param.name;
  return name + "On" + std::to_string(info.param.num_ranks);
}

INSTANTIATE_TEST_SUITE_P(Suite, MpiTransportTest, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace colibri
