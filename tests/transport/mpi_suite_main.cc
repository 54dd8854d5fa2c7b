// One rank of the suite over MPI: mpi_suite NAME DIR runs the scenario of that name, or, for "all",
// every one after which no rank is gone. Writes DIR/rank_<r>: "ok", or what went wrong.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/transport/transport_suite.h"
#include "transport/collectives.h"
#include "transport/mpi_transport.h"

namespace colibri {
namespace {

[[noreturn]] void hang() {
  for (;;) pause();
}

void run_scenario(MpiTransport& transport, const Scenario& scenario) {
  transport.set_epoch(transport.epoch() + 1);
  barrier(transport, Deadline::after_ms(20000), "start of " + scenario.name);
  RankContext context{transport, [] { raise(SIGKILL); }, hang};
  scenario.run(context);
}

void run_all(MpiTransport& transport, const std::string& name) {
  bool has_run = false;
  for (const Scenario& scenario : all_scenarios()) {
    const bool is_wanted = name == "all" ? !scenario.kills : name == scenario.name;
    if (!is_wanted || transport.size() < scenario.min_ranks) continue;
    has_run = true;
    try {
      run_scenario(transport, scenario);
    } catch (const std::exception& error) {
      throw std::runtime_error(scenario.name + ": " + error.what());
    }
  }
  require(has_run, "no scenario " + name);
}

int run(const std::string& name, const std::string& directory) {
  MpiOptions options;
  options.may_spin = false;
  options.watch_processes = name != "HeartbeatTellsOfALoss";
  options.heartbeat_ms = 100;
  options.heartbeat_overdue_ms = options.watch_processes ? 10000 : 1500;
  const auto transport = make_mpi_transport(options);
  std::string result = "ok";
  try {
    run_all(*transport, options.watch_processes ? name : "LostRankIsNamedAndSurvivorsGoOn");
  } catch (const std::exception& error) {
    result = error.what();
  }
  std::ofstream(directory + "/rank_" + std::to_string(transport->rank())) << result;
  if (result != "ok" || transport->lost()) _exit(result == "ok" ? 0 : 1);
  transport->finalize(0);
  return 0;
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return colibri::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_suite: %s\n", error.what());
    return 70;
  }
}
