#include "launch/show_machine.h"

#include <fstream>

#include "base/error.h"
#include "launch/plan_input.h"
#include "launch/process_clock.h"
#include "launch/standard_out.h"
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

int show_machine(const RunConfig& config) {
  const Cluster cluster = machine_named(config.plan.machine);
  write_out(cluster_tree(cluster));
  write_text("--svg", config.plan.svg, cluster_svg(cluster));
  const std::string source = "the catalogue, or this system, " + today();
  write_text("--out", config.plan.out, cluster_text(cluster, source));
  return 0;
}

}  // namespace colibri
