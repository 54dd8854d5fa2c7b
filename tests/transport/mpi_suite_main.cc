// One rank of the suite over MPI: mpi_suite NAME DIR runs the scenario of that name, or, for "all",
// every one after which no rank is gone.
#include <signal.h>
#include <unistd.h>

#include <string>

#include "tests/transport/rank_main.h"
#include "tests/transport/transport_suite.h"
#include "transport/collectives.h"

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

// What becomes of a lost rank is told by its process or, in one case, by its heartbeat alone.
RankSuite suite_of(const std::string& name) {
  const bool watches = name != "HeartbeatTellsOfALoss";
  RankSuite suite{
      .program = "mpi_suite",
      .run = [watches](const std::string& wanted, MpiTransport& mpi, const std::string&) {
        run_all(mpi, watches ? wanted : "LostRankIsNamedAndSurvivorsGoOn");
      }};
  suite.options.watch_processes = watches;
  suite.options.heartbeat_ms = 100;
  suite.options.heartbeat_overdue_ms = watches ? 10000 : 1500;
  return suite;
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) { return colibri::rank_main(argc, argv, colibri::suite_of); }
