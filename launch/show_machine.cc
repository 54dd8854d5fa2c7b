#include "launch/show_machine.h"

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "launch/plan_input.h"
#include "launch/process_clock.h"
#include "launch/standard_out.h"
#include "launch/this_machine.h"
#include "topology/cluster_file.h"
#include "topology/machine_picture.h"

namespace colibri {
namespace {

void write_text(const std::string& option, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, option, " ", path, ": cannot be written");
}

}  // namespace

int show_machine(const RunConfig& config, RankContext& context) {
  ProbedCluster machine;
  if (config.plan.machine == "auto") {
    machine = machine_of_ranks(context, int64_t{config.common.start_timeout_s} * 1000);
  } else if (context.is_root()) {
    machine.cluster = machine_named(config.plan.machine);
  }
  if (!context.is_root()) return 0;
  write_out(cluster_tree(machine.cluster));
  for (const std::string& note : machine.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  write_text("--svg", config.plan.svg, cluster_svg(machine.cluster));
  const std::string source = "the catalogue, or this system, " + today();
  write_text("--out", config.plan.out, cluster_text(machine.cluster, source));
  return 0;
}

}  // namespace colibri
