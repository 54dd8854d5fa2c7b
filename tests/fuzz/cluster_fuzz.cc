// The bytes are a machine file: it either gives a machine that can be shown, placed on, written and
// read again, or throws Error with kInput or kUnsupported.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "topology/cluster_file.h"
#include "topology/machine_picture.h"

namespace {

using namespace colibri;

constexpr size_t kMostShown = 300;  // parts: more take time and show nothing new

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void use(const Cluster& cluster) {
  const bool on_cpu = cluster.parts_of(PartKind::kGpu).empty();
  std::vector<int> ends = cluster.parts_of(on_cpu ? PartKind::kCpu : PartKind::kGpu);
  require(!ends.empty());
  const int num_ranks = std::min(4, static_cast<int>(ends.size()));
  require(default_rank_parts(cluster, num_ranks, on_cpu).size() == static_cast<size_t>(num_ranks));
  if (cluster.parts.size() > kMostShown) return;
  ends.resize(static_cast<size_t>(num_ranks));
  const ClusterRoutes routes(cluster, ends);
  for (size_t to = 1; to < ends.size(); ++to) require(!routes.between(0, to).empty());
  require(!cluster_tree(cluster).empty() && !cluster_svg(cluster).empty());
  const std::string text = cluster_text(cluster, "fuzz");
  const Cluster again = parse_cluster(text, "again");
  require(again.parts == cluster.parts && again.links == cluster.links);
  require(cluster_text(again, "fuzz") == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Cluster cluster;
  try {
    cluster = parse_cluster({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kUnsupported);
    return 0;
  }
  use(cluster);
  return 0;
}
